"""Brings back the runs that an earlier process of this agent has sealed, or another agent in whose place it is."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

import polars as pl

import cbt
from agent.runtime.durable.feed_memory import Resumption
from agent.runtime.durable.records import Chain, RestoredChain, StoredChain, StoredOldPanes, StoredRun
from agent.runtime.function.job_function import JobFunction
from agent.runtime.function.versions import Beside, InForce
from agent.runtime.model.panes import FIRST_PANE, SELF, OldPanes, Patch, Run
from agent.runtime.model.state_encoding import StateEncoding

STATE_BYTES_MAX = 1 << 30
"""Upper bound on a state, uncompressed; a larger one could not be passed on either."""


def identity_of(function: JobFunction) -> bytes:
    """Short identity of what a function computes."""
    return hashlib.blake2b(function.operator, digest_size=16).digest()


class SealedPast:
    """The past of a pipeline, which contributes from the pane `begins` on.

    Earlier runs come back under the number that they had alone. Those that are in windows may be needed by the next
    master for open ones; those of panes that were published without this agent are counted late by the log. Under
    another number they have been handed in when the agent left.
    """

    def __init__(self, resumption: Resumption, begins: int) -> None:
        self._resumption = resumption
        self._begins_after = max(FIRST_PANE, begins - 1)

    @property
    def first_pane(self) -> int:
        """The job's first pane on this agent."""
        return self._resumption.first_pane

    @property
    def chains(self) -> Mapping[Chain, int]:
        """The last sealed pane of each chain."""
        return {Chain(self._resumption.job, version): chain.upto for version, chain in self._resumption.sealed.items()}

    def of(self, one: InForce, olds: Sequence[Beside]) -> RestoredChain | None:
        """The chain of a version, if there is one that computes the same. `olds`: the older ones beside it."""
        chain = self._resumption.sealed.get(one.version.number)
        if chain is None or chain.function != identity_of(one.function) or chain.upto <= one.after:
            return None
        needed = self._needed(chain, one, olds)
        return RestoredChain(chain.upto, tuple(_without_gaps(needed, one.function, min(chain.upto, one.upto))))

    def _needed(self, chain: StoredChain, one: InForce, olds: Sequence[Beside]) -> Iterator[Run]:
        """The parts of runs that are needed, in pane order."""
        last, again = one.after, self._resumption
        for stored in chain.runs:
            begin = self._begins_after if stored.number != again.number else FIRST_PANE
            run = _run_of(stored, one.function, olds)
            for after, upto in chain.held:
                low, high = max(after, last, begin, run.after), min(upto, one.upto, run.upto)
                if low < high:
                    yield run.within(low, high)
                    last = high


class InheritedPast:
    """The past of another agent's pipeline, which has read the results of another job until now. `sealed`: its runs, in
    pane order, with the numbers of their versions. `opened`: the panes that it had not sealed, once it had read the
    result of the pane `read_upto`."""

    chains: Mapping[Chain, int] = MappingProxyType({})

    def __init__(
        self, sealed: Sequence[tuple[int, Run]], opened: Sequence[tuple[int, Run]], read_upto: int = FIRST_PANE
    ) -> None:
        self._sealed, self._opened = sealed, opened
        self.read_upto = read_upto if opened else FIRST_PANE

    def __bool__(self) -> bool:
        return bool(self._sealed or self._opened)

    @property
    def first_pane(self) -> int:
        """The first pane of these runs."""
        after = min((run.after for _, run in self._sealed), default=FIRST_PANE)
        return FIRST_PANE if after == FIRST_PANE else after + 1

    def opened(self, one: InForce) -> list[Run]:
        """The panes of a version that were not sealed."""
        return [run for version, run in self._opened if version == one.version.number]

    def of(self, one: InForce, _olds: Sequence[Beside]) -> RestoredChain | None:
        """The runs of a version, if there are any."""
        runs, last = list[Run](), one.after
        for version, run in self._sealed:
            if version == one.version.number and last <= run.after and run.upto <= one.upto:
                runs.append(run)
                last = run.upto
        return RestoredChain(last, tuple(_without_gaps(runs, one.function, last))) if runs else None


Past = SealedPast | InheritedPast


def _without_gaps(runs: Iterable[Run], function: JobFunction, end: int) -> Iterator[Run]:
    """The runs that may leave again, with empty ones in between, and up to a pane."""
    nothing, last = function.empty_state, None
    for run in runs:
        if last is not None and run.after > last:
            yield Run(last, run.after, 0, nothing)
        yield run
        last = run.upto
    if last is not None and last < end:
        yield Run(last, end, 0, nothing)


def _run_of(stored: StoredRun, function: JobFunction, olds: Sequence[Beside]) -> Run:
    """The run; without content if it cannot be read."""
    try:
        state = _state_of(stored.state, function)
        patches = tuple(
            Patch(
                one.carrier,
                _state_of(one.state, function),
                one.counted,
                dict.fromkeys(one.panes, SELF),
                SELF * one.lacks,
            )
            for one in stored.patches
        )
        before = tuple(_old_of(one, beside) for one in stored.before for beside in olds if _is_of(one, beside))
    except cbt.FrameError:
        return Run(stored.after, stored.upto, 0, function.empty_state)
    encoding = StateEncoding(state, stored.state) if stored.state else None
    partial = SELF * stored.is_partial
    run = Run(
        stored.after, stored.upto, SELF, state, stored.counted, partial, patches=patches, encoding=encoding,
        cut_by=stored.cut_by,
    )  # fmt: skip
    return run.with_before(before) if before else run


def _is_of(stored: StoredOldPanes, beside: Beside) -> bool:
    """Whether a version still needs old panes, and counts them in the same way."""
    is_same = (stored.version, stored.function) == (beside.number, identity_of(beside.old.function))
    return beside.is_carried and is_same


def _old_of(stored: StoredOldPanes, beside: Beside) -> OldPanes:
    state, carrier_ms = _state_of(stored.state, beside.old.function), beside.main.function.pane_ms
    assert carrier_ms is not None
    partial = SELF * stored.is_partial
    return OldPanes(
        stored.after, stored.upto, beside.number, beside.pane_ms, carrier_ms, state, stored.counted, SELF, partial
    )


def _state_of(encoded: bytes, function: JobFunction) -> pl.DataFrame:
    if not encoded:
        return function.empty_state
    return cbt.decode_frame(encoded, function.state_schema, bytes_max=STATE_BYTES_MAX)
