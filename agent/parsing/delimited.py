"""CSV and TSV with a header, read by Polars' reader.

That reader refuses a block for one bad quote and has ideas of its own about stray ones, so it sees only lines
whose quotes are in place; other CSV records are read one by one, and only a malformed one is lost.
"""

import re
from collections.abc import Sequence

import numpy as np
import polars as pl

from agent.parsing.columns import ParsedColumn, column_of_texts, null_column, parsed, same_times, times_of
from agent.parsing.fields import Field
from agent.parsing.formats import Format, Parsed, SourceColumn
from agent.parsing.known_fields import COLUMNS_MAX, NAME_CHARACTERS_MAX
from agent.parsing.record_reader import Ints, Mask, Records, RecordSpans, is_empty, line_spans
from agent.parsing.sample import is_binary, time_field
from agent.sources import LINE_BYTES_MAX, Block, Record, SourceError, irregular_records, read_record

SEPARATORS = {"csv": b",", "tsv": b"\t"}

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_BLANK_LINE = re.compile(rb"^\r?\n", re.MULTILINE)
_HOLE = re.compile(rb"^\0+\r?$", re.MULTILINE)
_BLANKS = b"\0 \t\r\n\v\f"
_NEWLINE, _RETURN = b"\n\r"
_NO_NAME = re.compile(r"^\d|\d:\d\d|.{101}|[{}<>]", re.DOTALL)


class DelimitedParser:
    """Parses CSV, or TSV, which has no quoting. Blank lines are nothing, holes of NULs malformed; rows may be short or
    long.
    """

    def __init__(self, form: Format, columns: Sequence[SourceColumn]) -> None:
        self._columns = tuple(columns)
        self._time_field = form.time_field
        self._is_quoted = form.kind == "csv"
        self._separator = SEPARATORS[form.kind]
        header = form.header or ()
        wanted = {column.field for column in columns} | {form.time_field}
        self._positions = {name: header.index(name) for name in header if name in wanted}
        self._needed = sorted(set(self._positions.values())) or [0]  # a frame without columns has no height
        self._names = self._separator.join(b"%d" % index for index in range(len(header))) + b"\n"

    def parse(self, block: Block, arrival_ms: int) -> Parsed:
        """See `Parser`. The file's first record is its header."""
        rows = block.data[self.header_end(block) :]
        odd = self.odd_records(rows)
        texts, refused = self.read_rows(rows, odd)
        malformed = len(refused) + sum(record.fields is None for record in odd)
        columns = [self._column(texts, column) for column in self._columns]
        return parsed(self.times(texts, arrival_ms), columns, malformed)

    def header_end(self, block: Block) -> int:
        """The offset at which the rows of a block begin."""
        return header_record(block.data, self._separator).end if block.origin.offset == 0 else 0

    def odd_records(self, rows: bytes) -> list[Record]:
        """The records that are not one line with its quotes in place."""
        return list(irregular_records(rows, LINE_BYTES_MAX)) if self._is_quoted else []

    def read_rows(self, rows: bytes, odd: Sequence[Record]) -> tuple[pl.DataFrame, list[int]]:
        """The needed columns: first of the lines that are not blank, then of the odd records that are whole.

        Of those lines, some may be refused: they are named by their numbers, and not in the columns.
        """
        texts, refused = self._read(_without(rows, odd))
        whole = [record.fields for record in odd if record.fields is not None]
        if whole:
            texts = texts.vstack(self._frame(whole))
        if self._is_quoted:
            texts = texts.with_columns(pl.when(pl.all() != "").then(pl.all()))
        return texts, refused

    def texts_of(self, texts: pl.DataFrame, name: str) -> pl.Series:
        """One of the needed columns as it was read."""
        return texts[str(self._positions[name])]

    def times(self, texts: pl.DataFrame, arrival_ms: int) -> pl.Series:
        """Int64 times of the rows; NULL where there is no usable one."""
        if self._time_field is None:
            return same_times(arrival_ms, texts.height)
        return times_of(self._column(texts, SourceColumn("", (self._time_field,), "string")))

    def _read(self, data: bytes) -> tuple[pl.DataFrame, list[int]]:
        """The needed columns of whole lines whose quotes are in place, and which lines were refused."""
        data, count = _without_blank_lines(data)
        if not count:
            return self._frame(()), []
        if b"\0" in data and _HOLE.search(data):
            return self._read_singly(data)
        frame = self._read_csv(data, count)
        if frame is None:
            frame = self._read_csv(data.decode("utf-8", "replace").encode(), count)
        return self._read_singly(data) if frame is None else (frame, [])

    def _read_csv(self, data: bytes, count: int) -> pl.DataFrame | None:
        """The needed columns of `count` lines; None if Polars' reader refuses them or sees another number."""
        try:
            frame = pl.read_csv(
                self._names + data,
                columns=[str(index) for index in self._needed],
                separator=self._separator.decode(),
                quote_char='"' if self._is_quoted else None,
                infer_schema=False,
                truncate_ragged_lines=True,
            )
        except pl.exceptions.PolarsError:
            return None
        return frame if frame.height == count else None

    def _read_singly(self, data: bytes) -> tuple[pl.DataFrame, list[int]]:
        lines = data.removesuffix(b"\n").split(b"\n")
        rows = [_fields(line, self._separator) for line in lines]
        good = [row for row in rows if row is not None]
        return self._frame(good), [index for index, row in enumerate(rows) if row is None]

    def _frame(self, rows: Sequence[Sequence[bytes]]) -> pl.DataFrame:
        """The needed columns of records that were read one by one."""
        columns = {
            str(index): [row[index].decode("utf-8", "replace") if index < len(row) else None for row in rows]
            for index in self._needed
        }
        return pl.DataFrame(columns, schema=dict.fromkeys(columns, pl.String))

    def _column(self, texts: pl.DataFrame, column: SourceColumn) -> ParsedColumn:
        index = self._positions.get(column.field)
        if index is None:
            return null_column(column.name, texts.height)
        return column_of_texts(column.name, column.type, texts[str(index)])


def header_record(data: bytes, separator: bytes) -> Record:
    """The first record that is not blank or a hole, without a byte order mark; an empty one if there is none."""
    start = len(_BYTE_ORDER_MARK) if data.startswith(_BYTE_ORDER_MARK) else 0
    while start < len(data):
        end = data.find(b"\n", start) + 1 or len(data)
        line = data[start:end]
        if line.strip(_BLANKS):
            record = read_record(data, start, LINE_BYTES_MAX) if separator == b"," else None
            if record is not None and record.fields is not None:
                return record
            return Record(start, end, tuple(line.rstrip(b"\r\n").split(separator)))
        start = end
    return Record(start, start, ())


def _fields(line: bytes, separator: bytes) -> Sequence[bytes] | None:
    line = line.removesuffix(b"\r")
    if not line.strip(b"\0"):
        return None
    return read_record(line, 0, LINE_BYTES_MAX).fields if separator == b"," else line.split(separator)


def _without(data: bytes, records: Sequence[Record]) -> bytes:
    if not records:
        return data
    ends = [0, *(record.end for record in records)]
    starts = [*(record.start for record in records), len(data)]
    return b"".join(data[end:start] for end, start in zip(ends, starts, strict=True))


def _without_blank_lines(data: bytes) -> tuple[bytes, int]:
    """The lines that are not empty, and their number."""
    body = np.frombuffer(b"\n" + data, np.uint8)
    newlines = np.flatnonzero(body == _NEWLINE)
    lengths = np.diff(newlines) - 1
    count = len(newlines) - (data[-1:] in (b"\n", b""))
    if (lengths == 0).any() or ((lengths == 1) & (body[newlines[1:] - 1] == _RETURN)).any():
        return _without_blank_lines(_BLANK_LINE.sub(b"", data))
    return data, count


# Records for the archive.


class DelimitedRecords:
    """See `RecordReader`. The header is a record like the others, and nothing."""

    def __init__(self, form: Format) -> None:
        names = [name for name in dict.fromkeys(form.header or ()) if 0 < len(name) <= NAME_CHARACTERS_MAX]
        self._names = names[:COLUMNS_MAX]
        self._is_complete = len(self._names) == len(form.header or ())
        self._parser = DelimitedParser(form, [SourceColumn(name, (name,), "string") for name in self._names])

    def read(self, block: Block, arrival_ms: int) -> Records:
        begin = self._parser.header_end(block)
        rows = block.data[begin:]
        odd = self._parser.odd_records(rows)
        texts, refused = self._parser.read_rows(rows, odd)
        regular, blank = _lines(rows, odd)
        spans, order = _in_order(rows, [regular, blank, _spans(odd)])
        read = np.delete(np.arange(len(regular)), refused)
        whole = [index for index, record in enumerate(odd) if record.fields is not None]
        owners = order[np.concatenate([read, np.array(whole, np.int64) + len(regular) + len(blank)])]
        is_nothing = np.zeros(len(spans), np.bool_)
        is_nothing[order[len(regular) : len(regular) + len(blank)]] = True
        if begin:
            end = begin - block.data[:begin].endswith(b"\n")
            spans = RecordSpans(np.append(0, spans.starts + begin), np.append(end, spans.ends + begin))
            is_nothing, owners = np.append(True, is_nothing), owners + 1
        fields = {name: Field("text", self._parser.texts_of(texts, name)) for name in self._names}
        return Records(spans, is_nothing, owners, self._parser.times(texts, arrival_ms), fields, self._is_complete)


def _lines(rows: bytes, odd: Sequence[Record]) -> tuple[RecordSpans, RecordSpans]:
    """The lines outside of odd records: those with content, and the others."""
    lines = line_spans(rows)
    if odd:
        starts = np.array([record.start for record in odd])
        ends = np.array([record.end for record in odd])
        nearest = np.searchsorted(starts, lines.starts, "right") - 1
        lines = _chosen(lines, ~((nearest >= 0) & (lines.starts < ends[nearest])))
    empty = is_empty(rows, lines)
    return _chosen(lines, ~empty), _chosen(lines, empty)


def _chosen(spans: RecordSpans, which: Mask) -> RecordSpans:
    return RecordSpans(spans.starts[which], spans.ends[which])


def _spans(odd: Sequence[Record]) -> RecordSpans:
    starts = [record.start for record in odd]
    return RecordSpans(np.array(starts, np.int64), np.array([record.end for record in odd], np.int64))


def _in_order(rows: bytes, parts: Sequence[RecordSpans]) -> tuple[RecordSpans, Ints]:
    """All spans in the order of their starts, and the place of each of the given ones among them."""
    starts = np.concatenate([part.starts for part in parts])
    ends = np.concatenate([part.ends for part in parts])
    order = np.argsort(starts, kind="stable")
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order))
    body = np.frombuffer(rows + b" ", np.uint8)
    ends = ends - ((ends > starts) & (body[ends - 1] == ord("\n")))
    return RecordSpans(starts[order], ends[order]), places


# Detection.


def csv_evidence(sample: bytes) -> tuple[int, int]:
    return (1, 0) if _is_table(sample, SEPARATORS["csv"]) else (0, 1)


def tsv_evidence(sample: bytes) -> tuple[int, int]:
    return (1, 0) if _is_table(sample, SEPARATORS["tsv"]) else (0, 1)


def recognise_csv(sample: bytes, file: str, given: str | None) -> Format:
    return _recognise("csv", sample, file, given)


def recognise_tsv(sample: bytes, file: str, given: str | None) -> Format:
    return _recognise("tsv", sample, file, given)


def delimited_schema(form: Format) -> tuple[dict[str, str], bool]:
    return dict.fromkeys(form.header or (), "any" if form.header is None else "text"), form.header is None


def _recognise(kind: str, sample: bytes, file: str, given: str | None) -> Format:
    if is_binary(sample):
        raise SourceError(file, "is binary, not log text")
    names = header_record(sample, SEPARATORS[kind]).fields or ()
    header = tuple(name.decode("utf-8", "replace").strip() for name in names)
    if given is not None and given not in header:
        raise SourceError(file, f"has no column {given!r} for the time; its columns are {', '.join(header)}"[:500])
    form = Format(kind, None, header)
    return Format(kind, time_field(sample, file, form, given, lambda form: DelimitedParser(form, [])), header)


def _is_table(sample: bytes, separator: bytes) -> bool:
    """Whether the first line can be a header, and most of the lines after it have fields like it."""
    record = header_record(sample, separator)
    names = [name.decode("utf-8", "replace").strip() for name in record.fields or ()]
    if len(names) < 2 or names.count("") > 1 or any(map(_NO_NAME.search, names)):
        return False
    rows = [line for line in sample[record.end :].split(b"\n") if line.strip()]
    if separator == b",":
        fields = [read_record(row, 0, LINE_BYTES_MAX).fields for row in rows]
        similar = sum(row is None or len(row) == len(names) for row in fields)
    else:
        similar = sum(separator in row for row in rows)
    return 2 * similar >= len(rows)
