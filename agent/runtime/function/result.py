"""The fields of a window's published result, wherever it is computed or read, and its JSON line (DESIGN §5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

if TYPE_CHECKING:
    import query  # for types only: clients read results without the query engine
    from agent.runtime.messages.versions import Version


@dataclass(frozen=True, slots=True)
class WindowMembership:
    """The names of all agents of a window, where its result is limited to `NAMES_MAX`."""

    version: Version
    expected: tuple[str, ...]
    missing: tuple[str, ...]
    partial: tuple[str, ...]
    leaped: tuple[str, ...] = ()


class WindowRows(NamedTuple):
    """The rows of a window. `limited`: the number of groups where an aggregate, as people write it, left something out.
    `error`: bound on the error of approximate aggregates. `taken`: matching events in the rows, without aggregates.
    """

    rows: query.ResultRows
    limited: dict[str, int]
    error: float | None
    taken: int

    def below(self, rows: WindowRows) -> WindowRows:
        """Adds the limits and errors of the sub-query's rows that these are made of."""
        errors = [error for error in (self.error, rows.error) if error is not None]
        return WindowRows(self.rows, rows.limited | self.limited, max(errors, default=None), rows.taken)


class OtherGroups(msgspec.Struct, frozen=True):
    """All groups of a window beyond the `kept` ones, together: about `groups`. `values` are the result's columns that
    are made of aggregates, over all of them.

    kept + groups is within `relative_error` of the truth at 99 %; where that is None, there are `groups` at least.
    """

    kept: int
    groups: int
    relative_error: float | None
    values: dict[str, Any]

    @property
    def about(self) -> str | None:
        """The number of groups to two digits, as estimates are shown; None where it is unknown.

        >>> OtherGroups(1_000_000, 34_217, 0.003, {}).about
        '34,000'
        """
        return None if self.relative_error is None else f"{int(float(f'{self.groups:.2g}')):,}"


class UnshownWindows(msgspec.Struct, frozen=True):
    """The time before a window in which none was shown, as nobody who was heard had events of it, although so many
    agents lack there: they are missing, or there in part. `missing` names the first of them."""

    window_start: str | None
    window_end: str | None
    lacking: int
    missing: list[str]


NAMES_MAX = 20
"""Upper bound on the agents that `missing`, `partial` and `leaped_over` name."""


class WindowResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """Rows of one window with everything a reader needs to judge them; counts are integers. Classes of received results
    declare `rows` as dicts and add their own fields.

    `leaped`: the number of agents that live, and were leaped over in some panes of the window for being too slow;
    `leaped_over` names them. They are not missing; those that are in other panes are partial contributors.

    `other`: the groups in no row, where the window has more than its job keeps. `limited`: the number of groups where
    an aggregate has met its limit and left values out. `error`: bound on the error of approximate aggregates in 99 of
    100 cases, as a part of a count or of all values; None where all is exact. `final`: left out where true; false in
    results of windows that may still change (EMIT CHANGES). `revision`: how often the result has changed since the
    window's end; left out where it has not. `more`: the next result is of a window that ends, or grows,
    at the same moment. `reasons`: why agents are missing or in part, by their names, where that is known; left out
    where it is empty. `unshown`: the windows since the last result that are not shown although somebody lacks in them;
    left out where there are none.

    `evicted`, `shed`, `lost`, `failed`, `missed`: what the job's keyed elements have given up since it has begun, as
    far as their hosts have told: elements removed for memory or by their time to live, events left out at the job's
    entry, logical nodes begun anew without their state, events at which the code of elements has raised, and events
    that elements have not had, as they were late or lost on their way. Left out where there is nothing.

    `within_ms`, `latency_ms`, `met`: the time in which results are to be out (WITHIN), the time that this one has taken
    from the end of its window, and whether it was in time. `slowest`: what has taken longest of one that was not, and
    on which agent. Left out without WITHIN, and in results that were kept by a master that has failed since.
    """

    app: str
    window_start: str | None
    window_end: str | None
    rows: query.ResultRows | list[dict[str, Any]]
    contributors: int
    expected: int
    missing: list[str]
    partial: list[str]
    leaped: int
    events: int
    late: int
    malformed: int
    coerced: int
    dropped: int
    other: OtherGroups | None
    limited: dict[str, int]
    error: float | None
    version: int
    epoch: int
    final: bool = True
    revision: int = 0
    more: bool = False
    leaped_over: list[str] = []
    reasons: dict[str, str] = {}
    evicted: int = 0
    shed: int = 0
    lost: list[int] = []
    failed: int = 0
    missed: int = 0
    unshown: list[UnshownWindows] = []
    within_ms: int = 0
    latency_ms: float | None = None
    met: bool | None = None
    slowest: str = ""

    def to_json(self) -> str:
        """One line, keys in the order of the fields."""
        return self.to_bytes().decode()

    def to_bytes(self, bytes_max: int | None = None) -> bytes:
        """The JSON line as bytes; past `bytes_max` the last rows are left out, and count as dropped."""
        json = msgspec.json.encode(self, enc_hook=_encodable)
        kept = len(self.rows)
        while bytes_max is not None and len(json) > bytes_max and kept:
            kept = min(kept - 1, kept * bytes_max // len(json))
            fewer = msgspec.structs.replace(self, rows=self.rows[:kept], dropped=self.dropped + len(self.rows) - kept)
            json = msgspec.json.encode(fewer, enc_hook=_encodable)
        return json


def _encodable(rows: query.ResultRows) -> list[Any]:
    """The rows of a window that is published here, as JSON knows them."""
    return rows.to_encode()
