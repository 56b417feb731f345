"""The store of a query without aggregates: the first rows of each pane by the query's order."""

from collections.abc import Iterable, Iterator, Sequence

import polars as pl

from cbt.algebra.columns import Key, Order, check_physical, check_whole, stored
from cbt.layout.layout import own_strings
from cbt.tree.fragment import EVERY_PANE, of_panes, panes_of, without_panes

_PENDING_ROWS = 2**14
_PENDING_BYTES = 2**24
_FLUSH_ROWS = 2**15


class RowBuffer:
    """Keeps the first `limit` rows of each pane, by the order columns and then by all columns.

    Frames have `pane` Int64, the order columns and the columns; columns of type `any` and `number` are stored as
    canonical JSON text. Equal rows are all kept. The choice of first rows does not depend on which buffer has which
    rows. Raises ValueError for a negative limit or two columns of one name.

    >>> buffer = RowBuffer([Key("path", "string")], [Order("size", True, "integer")], limit=2)
    >>> buffer.insert(pl.DataFrame({"pane": [0, 0, 0], "size": [1, 3, 2], "path": ["/a", "/b", "/c"]}))
    >>> [frame.rows() for frame in buffer.flush()]
    [[(0, 3, '/b'), (0, 2, '/c')]]
    """

    def __init__(self, columns: Sequence[Key], order: Sequence[Order], limit: int) -> None:
        inputs: list[Order | Key] = [*order, *columns]
        stored_columns = [("pane", pl.Int64()), *((column.name, column.stored_type) for column in inputs)]
        names = [name for name, _ in stored_columns]
        if limit < 0 or len(set(names)) < len(names):
            raise ValueError(f"a row buffer needs a limit >= 0 and distinct columns, not {limit} and {names}")
        self.columns, self.order, self.limit = tuple(columns), tuple(order), limit
        self.schema = pl.Schema(stored_columns)
        self._inputs = [(column.name, column.type) for column in inputs]
        self._descending = [False, *(item.descending for item in order), *(False for _ in columns)]
        self._forget()

    def insert(self, frame: pl.DataFrame) -> None:
        """Adds a frame of rows. Amortised O(n log n) for n rows.

        Raises ValueError if a column is missing or has no physical form of its type.

        >>> buffer = RowBuffer([Key("status", "number")], [], limit=10)
        >>> buffer.insert(pl.DataFrame({"pane": [0, 0], "status": [200, 404]}))
        >>> buffer.insert(pl.DataFrame({"pane": [0], "status": [200.0]}))
        >>> [frame["status"].to_list() for frame in buffer.flush()]
        [['200', '200', '404']]
        """
        check_whole(frame, "pane")
        check_physical(frame, self._inputs)
        frame = self._candidates(frame)
        columns = [stored(frame[column.name], column) for column in self.columns]
        order = [frame[item.name].cast(item.stored_type) for item in self.order]
        self._pending.append(pl.DataFrame([frame["pane"], *order, *columns]))
        self._pending_rows += frame.height
        self._pending_bytes += int(self._pending[-1].estimated_size())
        bytes_max = _PENDING_BYTES + int(self._first.estimated_size())
        if self._pending_rows >= max(_PENDING_ROWS, self._first.height) or self._pending_bytes >= bytes_max:
            self._merge_pending()

    def flush(self, pane: int | None = None, *, upto: int | None = None) -> Iterator[pl.DataFrame]:
        """The rows of all panes, of one, or of those up to one, ordered by pane, order columns and columns, in
        frames of bounded size.

        The state stays. O(n log n) for n rows if any were added since the last flush, else O(rows yielded).

        >>> buffer = RowBuffer([Key("path", "string")], [], limit=1)
        >>> buffer.insert(pl.DataFrame({"pane": [0, 60_000], "path": ["/b", "/a"]}))
        >>> [frame.rows() for frame in buffer.flush(60_000)]
        [[(60000, '/a')]]
        """
        self._merge_pending()
        rows = of_panes(self._first, panes_of(pane, upto))
        return iter([piece for piece in rows.iter_slices(_FLUSH_ROWS) if piece.height])

    def empty(self, pane: int | None = None, *, upto: int | None = None) -> None:
        """Forgets everything in O(1), or one pane, or those up to one, in O(n) for n rows.

        >>> buffer = RowBuffer([Key("path", "string")], [], limit=1)
        >>> buffer.insert(pl.DataFrame({"pane": [0, 60_000], "path": ["/b", "/a"]}))
        >>> buffer.empty(0)
        >>> [frame.rows() for frame in buffer.flush()]
        [[(60000, '/a')]]
        """
        panes = panes_of(pane, upto)
        if panes == EVERY_PANE:
            self._forget()
            return
        self._merge_pending()
        self._first: pl.DataFrame = without_panes(self._first, panes)

    def combine(self, frames: Iterable[pl.DataFrame]) -> pl.DataFrame:
        """The first rows of each pane of several buffers' frames, ordered. O(n log n) for n rows in all."""
        rows = pl.concat([pl.DataFrame(schema=self.schema), *frames])
        ordered = rows.sort(self.schema.names(), descending=self._descending, nulls_last=True)
        return own_strings(ordered.filter(pl.int_range(pl.len()).over("pane") < self.limit))

    @property
    def memory_bytes(self) -> int:
        """Bytes of the columns held. O(1) in the number of rows.

        >>> RowBuffer([Key("path", "string")], [], limit=1).memory_bytes
        0
        """
        return sum(int(frame.estimated_size()) for frame in (self._first, *self._pending))

    def check(self) -> None:
        """Asserts every invariant of the buffer; for tests."""
        assert all(frame.schema == self.schema for frame in (self._first, *self._pending))
        assert self._pending_rows == sum(frame.height for frame in self._pending)
        assert self._pending_rows < max(_PENDING_ROWS, self._first.height)
        assert self.combine([self._first]).equals(self._first), "what is kept is ordered and within the limit"

    def _candidates(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The frame without rows that `limit` others of their pane precede by the first order column alone: most rows
        of a long frame are dropped before the cost of storing them.
        """
        if not self.order or frame.height <= self.limit:
            return frame
        first = self.order[0]
        rank = pl.col(first.name).rank("min", descending=first.descending).over("pane")
        return frame.filter((rank <= self.limit) | rank.is_null())

    def _forget(self) -> None:
        self._first = pl.DataFrame(schema=self.schema)
        self._pending: list[pl.DataFrame] = []
        self._pending_rows = self._pending_bytes = 0

    def _merge_pending(self) -> None:
        if self._pending:
            self._first = self.combine([self._first, *self._pending])
            self._pending, self._pending_rows, self._pending_bytes = [], 0, 0
