"""Keeps the last results of a job, for followers that come back and for the next master."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import zstandard

from agent.runtime.master.results.late_json import LateJson, ResultJson, json_of, size_of
from agent.runtime.messages.jobs import Replica
from agent.runtime.model.panes import FIRST_PANE

RESULTS_MAX = 64
STAGE_RESULTS_MAX = 256
"""Upper bound on the results of a stage that are kept: a query of its job that reads it reads on from there."""
BYTES_MAX = 8 << 20
"""Upper bound on the results that are kept, and on those in one message, which has the newest."""
GIVEN_RESULT_BYTES_MAX = 256 << 10
"""Upper bound on a replicated result, but for those of stages: the next master knows that a larger one is lost."""


@dataclass(frozen=True, slots=True)
class Packed:
    """A compressed result."""

    data: bytes

    @classmethod
    def of(cls, json: bytes) -> Packed:
        return cls(zstandard.ZstdCompressor(level=1).compress(json))

    @property
    def json(self) -> bytes:
        return zstandard.ZstdDecompressor().decompress(self.data)


class ResultLog:
    """Results by pane, ascending, as JSON; the oldest are dropped when there are too many or they are too large.

    `lost` is the pane of the newest result that is not kept. Those whose JSON is not made are larger than what another
    master is given.
    """

    def __init__(self, results: Iterable[tuple[int, bytes]] = (), *, is_of_stage: bool = False) -> None:
        self.lost = FIRST_PANE
        self.is_of_stage = is_of_stage
        self._results: deque[tuple[int, ResultJson | Packed]] = deque()
        self._bytes = 0
        for pane, json in results:
            self.append(pane, json)

    @classmethod
    def of(cls, replica: Replica) -> ResultLog:
        """The results that come with a descriptor."""
        bundle = replica.versions[-1].bundle
        return cls(replica.results, is_of_stage=bundle is not None and bool(bundle.contents.part_of))

    def append(self, pane: int, json: ResultJson) -> None:
        """Adds the newest result; ignores one that is not newer than the last. An empty one counts as lost."""
        if pane <= self.last:
            return
        if not size_of(json):
            self.lost = pane
            return
        self._results.append((pane, json))
        self._bytes += size_of(json)
        most = STAGE_RESULTS_MAX if self.is_of_stage else RESULTS_MAX
        while len(self._results) > most or (self._bytes > BYTES_MAX and len(self._results) > 1):
            lost, dropped = self._results.popleft()
            self._bytes -= len(dropped.json) if isinstance(dropped, Packed) else size_of(dropped)
            self.lost = max(self.lost, lost)

    def pack(self, packed: Mapping[int, Packed] | None = None) -> dict[int, Packed]:
        """Compresses the results, which few ask for any more; returns them by pane. `packed` are of a log of the same
        job, and need no work."""
        done = dict(packed or {})
        for pane, json in self._results:
            if pane not in done:
                done[pane] = json if isinstance(json, Packed) else Packed.of(json_of(json))
        self._results = deque((pane, done[pane]) for pane, _ in self._results)
        return done

    @property
    def last(self) -> int:
        """The pane of the newest result, even if it is lost."""
        return max(self._results[-1][0], self.lost) if self._results else self.lost

    def after(self, pane: int) -> Iterator[tuple[int, bytes]]:
        """The results after a pane, in order."""
        return ((position, _json(result)) for position, result in self._results if position > pane)

    def to_give(self, after: int, bytes_max: int | None = None) -> list[tuple[int, bytes]]:
        """The newest results after a pane that fit a message, led by an empty one for the newest that does not."""
        lost, results = self.lost, []
        for pane, result in self._results:
            if pane > after:
                is_late = isinstance(result, LateJson) and not self.is_of_stage
                json = b"" if is_late else _json(result)  # which is large
                results.append((pane, json if len(json) <= GIVEN_RESULT_BYTES_MAX or self.is_of_stage else b""))
        while sum(len(json) for _, json in results) > (BYTES_MAX if bytes_max is None else bytes_max):
            lost, _ = results.pop(0)
        return [(lost, b""), *results] if lost > after else results

    def last_results(self, count: int) -> list[tuple[int, bytes]]:
        """The newest results, at most this number, in order."""
        return [(pane, _json(result)) for pane, result in list(self._results)[-count:]]

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        return ((pane, _json(result)) for pane, result in self._results)

    def __len__(self) -> int:
        return len(self._results)


def _json(result: ResultJson | Packed) -> bytes:
    return result.json if isinstance(result, Packed) else json_of(result)
