"""Reads a job's published results from the archive's log of results or a client's output: JSON lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, TypeAlias

import msgspec

from agent.parsing import parse_time
from agent.runtime.function.result import NAMES_MAX, WindowResult

JobLife: TypeAlias = tuple[str, int]
"""App id of a job and its birth (epoch ms). A job that was stopped and submitted again has another life."""


@lru_cache(4096)
def moment_ms(text: str | None) -> int | None:
    """Epoch ms of a window's start or end; None where it has none."""
    return None if text is None else parse_time(text)


class VersionLine(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="version"):
    """A version of a job's function. `maps`: its code makes other events, which not every master knows; `drives`: the
    job cuts its batches itself.
    """

    app: str
    app_id: str
    born_ms: int
    creator: str
    version: int
    after: int
    starts: int
    text: str
    plan: dict[str, Any]
    grace_ms: int
    has_code: bool = False
    drives: bool = False
    maps: bool = False

    @property
    def life(self) -> JobLife:
        return self.app_id, self.born_ms


class RosterLine(msgspec.Struct, frozen=True, tag_field="kind", tag="roster"):
    """The agents that were expected, under the roster's name."""

    roster: str
    agents: list[str]


class LiveResult(WindowResult, frozen=True, kw_only=True, tag_field="kind", tag="result"):
    """A published result. In a line that a client has printed, `app_id`, `born_ms` and `roster` are empty."""

    rows: list[dict[str, Any]]
    app_id: str = ""
    born_ms: int = 0
    creator: str = ""
    roster: str | None = None
    all_missing: list[str] = msgspec.field(default_factory=list)
    all_partial: list[str] = msgspec.field(default_factory=list)
    all_leaped: list[str] = msgspec.field(default_factory=list)
    rows_cut: int = 0

    @property
    def life(self) -> JobLife:
        return self.app_id, self.born_ms

    @property
    def window(self) -> tuple[str, str]:
        """Start and end, by which windows are compared."""
        return self.window_start or "", self.window_end or ""

    @property
    def start_ms(self) -> int | None:
        """Start of the window (epoch ms); None where the job has no windows, or the year is beyond all calendars."""
        return moment_ms(self.window_start)

    @property
    def end_ms(self) -> int | None:
        """End of the window (epoch ms); None as for `start_ms`."""
        return moment_ms(self.window_end)

    @property
    def absent(self) -> frozenset[str]:
        """Agents that were expected and are not in it: missing, or leaped over in all of its panes."""
        return frozenset(self.all_missing or self.missing) | (self.skipped - self.incomplete)

    @property
    def skipped(self) -> frozenset[str]:
        """Agents that were leaped over in some of its panes."""
        return frozenset(self.all_leaped or self.leaped_over)

    @property
    def incomplete(self) -> frozenset[str]:
        """Agents that contributed only a part of their events."""
        return frozenset(self.all_partial or self.partial)

    @property
    def names_are_cut(self) -> bool:
        """Whether more agents are missing than the result names."""
        return len(self.absent) < self.expected - self.contributors or len(self.incomplete) == NAMES_MAX


_LOG = msgspec.json.Decoder(VersionLine | RosterLine | LiveResult)
_PRINTED = msgspec.json.Decoder(LiveResult)


@dataclass(frozen=True, slots=True)
class LiveJob:
    """The published results of one job, with its versions and rosters. `torn`: number of lines that were no results or
    broke off.
    """

    results: tuple[LiveResult, ...]
    versions: dict[tuple[JobLife, int], VersionLine] = field(default_factory=dict)
    rosters: dict[str, frozenset[str]] = field(default_factory=dict)
    torn: int = 0

    def agents(self, result: LiveResult) -> frozenset[str] | None:
        """Agents that contributed to a result; None where unknown."""
        roster = self.rosters.get(result.roster or "")
        return None if roster is None or result.names_are_cut else roster - result.absent

    def version(self, result: LiveResult) -> VersionLine | None:
        """The version that computed a result, if it is described."""
        return self.versions.get((result.life, result.version))

    def between(self, since_ms: int | None, until_ms: int | None) -> LiveJob:
        """The job with only the windows that lie wholly between two times."""
        inside = [one for one in self.results if _is_inside(one, since_ms, until_ms)]
        return replace(self, results=tuple(inside))


def read_log(lines: Iterable[bytes], app: str) -> LiveJob:
    """Reads a job's part of the log of results. `app`: its name, or NAME@CREATOR."""
    name, at, creator = app.rpartition("@")
    versions: dict[tuple[JobLife, int], VersionLine] = {}
    rosters: dict[str, frozenset[str]] = {}
    results, torn = [], 0
    for one in _decoded(lines, _LOG):
        match one:
            case None:
                torn += 1
            case RosterLine():
                rosters[one.roster] = frozenset(one.agents)
            case VersionLine() | LiveResult() if one.app != app and not (
                at and (one.app, one.creator) == (name, creator)
            ):
                pass
            case VersionLine():
                known = versions.get((one.life, one.version))
                versions[one.life, one.version] = known if known is not None and known.maps else one
            case LiveResult():
                results.append(one)
    return LiveJob(_windows(results), versions, rosters, torn)


def read_printed(lines: Iterable[bytes], version: VersionLine) -> LiveJob:
    """Reads the output of `elf follow` or `elf query`; `version` is the job's query."""
    decoded = list(_decoded(lines, _PRINTED))
    results = [one for one in decoded if one is not None]
    versions = {(one.life, one.version): version for one in results if one.version == version.version}
    return LiveJob(_windows(results), versions, torn=decoded.count(None))


def _decoded(lines: Iterable[bytes], decoder: msgspec.json.Decoder[Any]) -> Iterator[Any]:
    for line in lines:
        if line.strip():
            try:
                yield decoder.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                yield None


def _windows(results: Iterable[LiveResult]) -> tuple[LiveResult, ...]:
    """Final results in order, of each window the last revision. A result that several masters have logged is kept once,
    if possible with its roster.
    """
    names: dict[str, Any] = {"all_missing": [], "all_partial": [], "all_leaped": []}
    known: dict[bytes, LiveResult] = {}
    for one in results:
        key = msgspec.json.encode(msgspec.structs.replace(one, roster=None, **names))
        if one.final and (key not in known or one.roster is not None):
            known[key] = one
    last: dict[Any, int] = {}
    for one in known.values():
        last[_window_of(one)] = max(one.revision, last.get(_window_of(one), 0))
    known = {key: one for key, one in known.items() if one.revision == last[_window_of(one)]}
    return tuple(sorted(known.values(), key=lambda one: (one.start_ms or 0, one.end_ms or 0, one.version, one.epoch)))


def _window_of(one: LiveResult) -> tuple[Any, ...]:
    """The window of a result, of which the last revision counts."""
    return one.app_id, one.born_ms, one.version, one.window_start, one.window_end


def _is_inside(result: LiveResult, since_ms: int | None, until_ms: int | None) -> bool:
    start, end = result.start_ms, result.end_ms
    begins = since_ms is None or start is None or start >= since_ms
    return begins and (until_ms is None or end is None or end <= until_ms)
