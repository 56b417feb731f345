"""Writes published results as lines of a log, with everything needed to compute the same windows again.

A *result* line is the result as it was published, after a head with the job, its birth, and the roster. A *version*
line describes the function that made it, a *roster* line names the expected agents. Both precede the results that need
them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec

from agent.runtime.function.result import NAMES_MAX, WindowMembership, WindowResult
from agent.runtime.master.state import JobState
from agent.runtime.messages.versions import Version
from overlay import format_id

ROWS_BYTES_MAX = 768 << 10
"""Upper bound on a result in a log, whose lines have at most a MiB; a larger one loses its last rows."""
DESCRIBED_MAX = 64


class ResultRecord(NamedTuple):
    """A line without its time, and the lines that have to precede it."""

    line: bytes
    context: tuple[bytes, ...]


class _VersionNumber(msgspec.Struct):
    version: int = 0


class ResultRecords:
    """Makes lines of one master's results."""

    def __init__(self, state: JobState) -> None:
        self._state = state
        self._versions: dict[tuple[int, bool], bytes] = {}
        self._roster: tuple[tuple[str, ...], str, bytes] = ((), "", b"")

    def record(self, result: WindowResult, json: bytes, membership: WindowMembership, *, maps: bool) -> ResultRecord:
        """The line of a published result. `maps`: whether the job's code maps events before they are counted."""
        roster, names = self._roster_line(membership.expected)
        head: dict[str, Any] = self._head() | {"roster": roster}
        if len(membership.missing) > NAMES_MAX:
            head["all_missing"] = membership.missing
        if len(membership.partial) > NAMES_MAX:
            head["all_partial"] = membership.partial
        if len(membership.leaped) > NAMES_MAX:
            head["all_leaped"] = membership.leaped
        if len(json) > ROWS_BYTES_MAX:
            json = result.to_bytes(ROWS_BYTES_MAX)
            head["rows_cut"] = len(result.rows) - len(msgspec.json.decode(json)["rows"])
        return ResultRecord(_led(head, json), (self._version_line(membership.version, maps=maps), names))

    def carried_over(self, results: Iterable[tuple[int, bytes]]) -> Iterator[ResultRecord]:
        """Makes lines of the last results of the master before, whose agent's log may be lost."""
        for pane, json in results:
            if json and len(json) <= ROWS_BYTES_MAX:
                version = self._version_of(pane, json)
                yield ResultRecord(_led(self._head(), json), (self._version_line(version, maps=False),))

    def _version_of(self, pane: int, json: bytes) -> Version:
        """The version of a window, which may be an older one than that of its pane."""
        known = self._state.versions.numbered(msgspec.json.decode(json, type=_VersionNumber).version)
        return (known or self._state.versions.at(pane)).version

    def _head(self) -> dict[str, Any]:
        state = self._state
        return {
            "kind": "result",
            "app_id": format_id(state.job.app_id),
            "creator": state.creator,
            "born_ms": state.epoch.born_ms,
        }

    def _version_line(self, version: Version, *, maps: bool) -> bytes:
        known = self._versions.get((version.number, maps))
        if known is None:
            while len(self._versions) >= DESCRIBED_MAX:
                del self._versions[next(iter(self._versions))]
            known = self._versions[version.number, maps] = msgspec.json.encode(self._described(version, maps=maps))
        return known

    def _described(self, version: Version, *, maps: bool) -> dict[str, Any]:
        job, contents = self._state.job, version.bundle.contents if version.bundle is not None else None
        return self._head() | {
            "kind": "version",
            "app": job.name,
            "version": version.number,
            "after": version.after,
            "starts": version.starts,
            "text": version.text,
            "plan": version.plan,
            "stream": job.stream,
            "grace_ms": job.grace_ms,
            "since_ms": job.since_ms,
            "until_ms": job.until_ms,
            "has_code": contents is not None and bool(contents.source),
            "drives": contents is not None and contents.drives,
            "maps": maps,
        }

    def _roster_line(self, names: tuple[str, ...]) -> tuple[str, bytes]:
        """The roster's name, a digest of the agents' names, and its line."""
        known, digest, line = self._roster
        if not line or names != known:
            digest = hashlib.sha256(msgspec.json.encode(names)).hexdigest()[:32]
            line = msgspec.json.encode({"kind": "roster", "roster": digest, "agents": names})
            self._roster = (names, digest, line)
        return digest, line


def _led(head: dict[str, Any], json: bytes) -> bytes:
    """Merges both into one object."""
    return msgspec.json.encode(head)[:-1] + b"," + json[1:]
