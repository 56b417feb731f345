"""Holds the state of a job's master (paper §3.1): the roster, the windows, and the published frontier."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

import msgspec
import polars as pl

import query
from agent.runtime.function.changing_windows import WindowUpdate
from agent.runtime.function.consolidated_windows import OPEN_BYTES_MAX
from agent.runtime.function.job_function import JobFunction
from agent.runtime.function.result import (
    NAMES_MAX,
    OtherGroups,
    UnshownWindows,
    WindowMembership,
    WindowResult,
    WindowRows,
)
from agent.runtime.function.tree_placement import TreePlacement
from agent.runtime.function.versions import Beside, FunctionCache, InForce, Versions, first_version
from agent.runtime.master.healing import Healing
from agent.runtime.master.older_windows import GoingOn, OlderWindow, placed
from agent.runtime.master.roster import Roster
from agent.runtime.master.windows import ClosedWindow, WindowAssembler
from agent.runtime.messages.jobs import Enrolled, Ready, Replica, Submit
from agent.runtime.messages.versions import Version
from agent.runtime.model import contributors
from agent.runtime.model.element_losses import ElementLosses
from agent.runtime.model.epoch import JobEpoch
from agent.runtime.model.incomplete import (
    HEAL_RETENTION_MS,
    SPANS_MAX,
    IncompleteSpan,
    IncompleteSpans,
    UnshownSpan,
    UnshownSpans,
    WireSpan,
    from_wire,
    to_wire,
)
from agent.runtime.model.meters import Work, WorkMeter
from agent.runtime.model.panes import END, FIRST_PANE, Counted, Counts, Losses, Run, holds_panes, total
from agent.runtime.model.placement import NOT_MOVED
from agent.runtime.reduce.owner import OwnedWindow
from cbt.windows import WorkDone
from overlay import Id

TOO_LARGE = (
    f"its open windows take more than {OPEN_BYTES_MAX >> 30} GiB: choose shorter ones, or group by fewer columns"
)

TOLD_MS = 30_000
"""Time beyond `heal_retention` for which agents are told of panes that they no longer keep, and now count as late."""
LEFT_KEPT_MS = 60_000
"""Time after its last pane for which an agent that has left is known: runs of one that works on can be combined."""


class JobState:
    """The state of a job on the agent whose id is closest to the appId; turns combined runs into results.

    `totals` sums the counts of everything published. Raises `query.PlanError` for a job whose plan is not one.
    """

    def __init__(
        self,
        job: Submit,
        epoch: JobEpoch,
        submitter: Id,
        versions: Sequence[Version] | None = None,
        functions: FunctionCache | None = None,
    ) -> None:
        self.versions = Versions(versions or [first_version(job)], job, functions or FunctionCache())
        self.job = msgspec.structs.replace(job, bundle=None)
        self.ranges = self.versions.trees
        """Number of ranges of hashes that the job's keys are in, as long as it runs."""
        self.epoch = epoch
        self.submitter = submitter
        self.creator = ""
        """The creator of the job, "" for none."""
        if not job.bounded:
            window_of(self.versions.newest.function)
        self.roster = Roster()
        self.frontier = FIRST_PANE
        self.totals = Counts()
        self.moved = NOT_MOVED
        """The moves of its key groups."""
        self.written_off = 0
        """Bitmap of the agents that no pane waits for."""
        self.failure: str | None = None
        """The reason why the job cannot continue beyond the frontier."""
        self.membership: dict[int, WindowMembership] | None = None
        """Members of the windows that `publish` returned last, by position; None if nobody needs them."""
        self._incomplete = IncompleteSpans()
        self._unshown = UnshownSpans()
        self.heal_ms = HEAL_RETENTION_MS
        """Time for which agents keep panes that were published without somebody."""
        self.healing = Healing()
        self.work = WorkMeter()
        """The work for the job on this agent, and what others have told of theirs."""
        self.element_losses = ElementLosses()
        """Losses of the hosts of its elements, if it has any."""
        self._losses: list[tuple[int, int, Losses]] = []
        """Runs that were not passed on: their first and last pane, and whose they were."""
        self._ready = 0
        self._open: dict[int, tuple[InForce, WindowAssembler]] = {}
        """The windows that are being assembled, by their versions; but for the newest one they only go on."""
        self._going_on: dict[int, GoingOn] = {}
        self._published_before = FIRST_PANE
        """The last pane published before this master took over, which begins earlier if windows are open."""

    @property
    def windows_made(self) -> WorkDone:
        """The windows of several panes that the newest version has made, and the states that were merged for them."""
        return self._open[max(self._open)][1].done if self._open else WorkDone()

    @property
    def published_upto(self) -> int:
        """The last pane published, by this master or the one before."""
        return max(self.frontier, self._published_before)

    @property
    def placement(self) -> TreePlacement:
        """The places of keys on trees."""
        return TreePlacement(self.ranges, self.moved)

    @property
    def trees(self) -> int:
        """Number of trees that compute the job in this epoch."""
        return self.placement.trees

    @property
    def published_before(self) -> int:
        """The last pane that was published before this master took over."""
        return self._published_before

    def enrol(
        self, node_id: int, name: str, *, works: bool, before: int | None = None, resumes: bool = False
    ) -> Enrolled | None:
        """Puts a worker on the roster, and gives it or a forwarder the function in force. None: the roster is full.

        `before`: its number under the master before. `resumes`: it has the events of all panes that are not published.
        """
        number, begins, contributed, is_new = None, FIRST_PANE, FIRST_PANE, False
        if works and (self.app is None or node_id == self.epoch.master):
            begins = self._earliest_pane(node_id)
            contributed = self.published_upto
            if self.app is None:  # whoever reads another job's results goes on with what the one before has sealed
                contributed = self.roster.contributed(node_id, self.published_upto)
            member = self.roster.enrol(node_id, name, before)
            if member is None:
                return None
            number, is_new = member.number, member.first_pane is None and begins > FIRST_PANE
            self.healing.enrolled(number, self.published_upto)
            if self.job.bounded or (resumes and begins > FIRST_PANE):
                self.roster.begin(number, begins)
        versions, job = self.versions.all(), self.job
        return Enrolled(
            job.app_id, self.epoch, number, versions, self.frontier, begins, job, contributed, is_new, self.moved
        )

    def _earliest_pane(self, node_id: int) -> int:
        """The first pane to which an agent can still contribute, or contribute again after it has left."""
        left = self.roster.last_pane(node_id)
        last = self.published_upto if left is None else max(self.published_upto, left)
        return FIRST_PANE if last == FIRST_PANE else min(last, END - 1) + 1

    def knows(self, node_id: int, number: int) -> bool:
        """Whether the agent is on the roster with this number."""
        member = self.roster.member(number)
        return member is not None and member.node_id == node_id

    def acknowledge(self, node_id: int, ready: Ready) -> None:
        """Notes that a worker of the roster runs the function, and has every event from its first pane on."""
        member = self.roster.member(ready.number)
        assert member is not None
        if ready.version == self.version:
            self.runs(1 << ready.number)
        first_pane = max(ready.first_pane, self._earliest_pane(node_id))
        if ready.instead_of is not None and ready.instead_of == member.first_pane:
            self.roster.postpone(ready.number, first_pane)
        else:
            self.roster.begin(ready.number, first_pane)

    @property
    def version(self) -> int:
        """The newest version in force."""
        return self.versions.newest.version.number

    @property
    def app(self) -> str | None:
        """The job whose results this job reads, if any: then only the master's agent works on it."""
        return self.versions.newest.function.plan.app

    @property
    def part_of(self) -> str:
        """The job of which this job is a stage, "" for none."""
        bundle = self.versions.newest.version.bundle
        return bundle.contents.part_of if bundle is not None else ""

    @property
    def text(self) -> str:
        """The job's query, as people read it."""
        return self.versions.newest.version.text

    @property
    def columns(self) -> list[str]:
        """The columns of the job's results."""
        return query.output_names(self.versions.newest.function.plan)

    def begin(self, version: Version) -> None:
        """Puts a further version in force, which no agent has acknowledged yet. Raises `query.PlanError`."""
        self.versions.change_to([*self.versions.all(), version])
        self._ready = 0

    def runs(self, agents: int, *, no_longer: bool = False) -> None:
        """Notes that these agents run the newest version, or no longer run it."""
        self._ready = self._ready & ~agents if no_longer else self._ready | agents

    def leave(self, number: int, last_pane: int) -> None:
        """Notes that an agent of the roster leaves after this pane."""
        self.roster.leave(number, last_pane)
        self._forget_left()

    def _forget_left(self) -> None:
        self.roster.forget_left(self.versions.retention_pane(self.frontier) - LEFT_KEPT_MS)

    def publish(
        self, run: Run, owned: Sequence[OwnedWindow] = (), windows: Iterable[WindowUpdate] | None = None
    ) -> dict[int, WindowResult]:
        """The results of the windows that a combined run completes or changes, by position, in order. The run must
        follow the last one. `owned`: the windows that owners of trees have made of it. `windows`: those of several
        panes, where they are made already.

        Where too many groups are an error, windows end before the first that has them, and `failure` says so.
        """
        assert run.after == self.frontier, "runs reach the master in sequence"
        assert self.failure is None
        if self.membership is not None:
            self.membership = {}
        version = self.versions.at(run.upto)
        function = version.function
        others = function.overflow_groups(run.state)
        if others and function.refuses_others:
            crowded = min(others)
            self.failure = _too_many_groups(function.plan, crowded, others[crowded])
            run = run.within(run.after, crowded - 1)
        self.frontier = run.upto
        self.roster.contribute(run.contributors, run.after)
        self._note_losses(run)
        self.roster.include(run.contributors, run.after + 1)
        self._note_incomplete(run)
        self._note_unshown(run, version)
        new = [counts for pane, counts in run.counted.items() if pane > self._published_before]
        self.totals = total([self.totals, *new, *([run.patched] if run.upto > self._published_before else [])])
        counted = _counted(run, function)
        results, beside = self.settled(run), self.versions.beside(run.upto)
        if function.is_of_panes:
            results |= self._of_panes(run, version, counted, others)
        else:
            results |= self._of_several(run, version, [one for one in owned if one.version is None], windows)
        if older := [window for one in beside for window in self._of_older(run, one, owned)]:
            results = self._with_older(results, older, function.pane_ms or 1)
        if corrected := self._corrected(run):
            results = dict(sorted({**corrected, **results}.items()))
        self._forget_left()
        self.versions.forget(self.frontier)
        return results

    def _note_incomplete(self, run: Run) -> None:
        if not self.job.bounded and holds_panes(run.after, run.upto, self.versions.at(run.upto).function.pane_ms):
            self._incomplete.note(IncompleteSpan(run.after, run.upto, run.contributors), self.roster.known())
            self._incomplete.forget(run.upto - self.heal_ms - TOLD_MS)
            if self.versions.newest.function.grace.corrects:
                lacking = self._incomplete.within(run.after - self.heal_ms, run.after)
                self.healing.note(run.contributors, lacking, self.roster.expected_in)

    def _note_unshown(self, run: Run, version: InForce) -> None:
        """Notes who lacks in panes that are published for the first time; their windows take that out again."""
        after, upto, pane_ms = max(run.after, version.version.starts - 1), run.upto, version.function.pane_ms
        is_timed = pane_ms is not None and not (self.job.bounded or version.function.self_paced)
        if is_timed and FIRST_PANE < after < upto < END and upto > self._published_before:
            lacking = self.roster.expected_in(after + 1, upto) & ~(run.contributors & ~run.partial | run.leaped)
            self._unshown.note(UnshownSpan(after, upto, lacking))

    @property
    def told_unshown(self) -> tuple[WireSpan, ...]:
        """The panes without a window so far that somebody lacks in, as messages carry them."""
        return to_wire(self._unshown)

    def _unshown_before(self, window: ClosedWindow, pane_ms: int | None) -> Iterator[UnshownWindows]:
        """The windows before one that is shown now which were not, although somebody lacks in them."""
        end = window.start_ms + window.size_ms if window.size_ms else window.pane + 1
        for after, upto, agents in self._unshown.shown(window.start_ms, end):
            if pane_ms and holds_panes(after, upto, pane_ms):
                first, last = (after // pane_ms + 1) * pane_ms, upto // pane_ms * pane_ms
                times = query.format_timestamp(first), query.format_timestamp(last + pane_ms)
                yield UnshownWindows(*times, agents.bit_count(), self.roster.names(agents)[:NAMES_MAX])

    def told_incomplete(self, upto: int) -> tuple[WireSpan, ...]:
        """The panes up to one that were published without somebody, as messages carry them."""
        told = [*self._incomplete.within(FIRST_PANE, self.frontier), *self.healing.history.within(self.frontier, upto)]
        return to_wire(span for span in told[-SPANS_MAX:] if span.after < upto)

    def _note_losses(self, run: Run) -> None:
        if run.losses:
            self._losses.append((run.after, run.upto, run.losses))
        if self._losses:
            needed = self.versions.retention_pane(run.after)
            self._losses = [one for one in self._losses if one[1] > needed]

    def _reasons(self, window: ClosedWindow) -> dict[str, str]:
        """Names of agents that are missing or partial in a window, with the reasons that are known."""
        lacking = (window.expected & ~window.contributors) | window.partial
        reasons: dict[str, str] = {}
        for after, upto, losses in self._losses:
            if after < window.pane and upto >= window.start_ms:
                for agents, reason in losses:
                    reasons |= dict.fromkeys(self.roster.names(agents & lacking), reason)
        return dict(islice(sorted(reasons.items()), NAMES_MAX))

    def _of_panes(
        self, run: Run, version: InForce, counted: Counted, others: dict[int, OtherGroups]
    ) -> dict[int, WindowResult]:
        """The results of windows that are a pane each, all at once, but for those that the master before has published:
        it is begun again for windows of older versions."""
        counted = {pane: counts for pane, counts in counted.items() if pane > self._published_before}
        if not counted:
            return {}
        function = version.function
        size_ms = function.plan.window_ms
        finished = function.finish_windows(run.state.filter(pl.col("pane").is_in(list(counted))), counted)
        results = {}
        for pane in sorted(counted):
            expected = self.roster.expected(pane)
            present = expected & run.contributors
            partial, leaped = present & run.partial, expected & run.leaped
            window = ClosedWindow(pane, pane, pane, size_ms, counted[pane], expected, present, partial, leaped=leaped)
            results[pane] = self._result(window, finished[pane], others.get(pane), version)
        return results

    def windows_of(self, run: Run, owned: Sequence[OwnedWindow] = ()) -> Iterator[WindowUpdate]:
        """The changes of windows of several panes by the next run, before that is published."""
        version = self.versions.at(run.upto)
        windows = self._assembler(version)
        return windows.updates(run, _counted(run, version.function), owned, self.placement)

    def _of_several(
        self, run: Run, version: InForce, owned: Sequence[OwnedWindow], made: Iterable[WindowUpdate] | None
    ) -> dict[int, WindowResult]:
        """The results of windows of several panes that the run completes or changes."""
        for patch in run.patches:
            for pane, agents in patch.agents.items():
                self.roster.include(agents & run.contributors, pane)
        windows, expected, work = self._assembler(version), self.roster.expected_in, self.work
        if made is not None:
            return self._shown(version, windows, windows.closed(run, made, expected))
        counted, inputs, begun_s = _counted(run, version.function), windows.done.inputs, work.clock()
        shown_s = work.seconds(Work.SHOW)
        updates = windows.take(run, counted, expected, owned, self.placement)
        results = self._shown(version, windows, updates)
        merged_s = work.clock() - begun_s - (work.seconds(Work.SHOW) - shown_s)
        work.note(Work.MERGE, len(counted) + windows.done.inputs - inputs, run.state.height, merged_s)
        return results

    def _assembler(self, version: InForce) -> WindowAssembler:
        """The windows of a version, which are begun if they are not."""
        number = version.version.number
        if number not in self._open:
            self._open[number] = version, WindowAssembler(version.function, version.version.starts)
        return self._open[number][1]

    def settled(self, run: Run) -> dict[int, WindowResult]:
        """The last results of windows of versions before, where a run begins another one. Those that are not over and
        do not go on are dropped."""
        number = self.versions.at(run.upto).version.number
        needed = {number, *(one.number for one in self.versions.beside(run.upto))}
        results: dict[int, WindowResult] = {}
        for old in [old for old in self._open if old not in needed]:
            before, windows = self._open.pop(old)
            self._going_on.pop(old, None)
            results |= self._shown(before, windows, windows.settle(run.after, self.roster.expected_in))
        return results

    def _of_older(self, run: Run, beside: Beside, owned: Sequence[OwnedWindow]) -> Iterator[OlderWindow]:
        """The windows of an older version that end with a run."""
        going_on = self._going_on.setdefault(beside.number, GoingOn(self._assembler(beside.old)))
        mine = [one for one in owned if one.version == beside.number]
        updates = going_on.take(run, beside, self.roster.expected_in, mine, self.placement)
        for window, finished, other, _ in self._made(beside.old, going_on.windows, updates):
            yield OlderWindow(window, finished, other, beside.old)

    def _with_older(
        self, results: dict[int, WindowResult], older: Sequence[OlderWindow], pane_ms: int
    ) -> dict[int, WindowResult]:
        """The results of a run with those of windows of older versions, in order of their ends."""
        positions = placed(results, older, pane_ms)
        members, self.membership = self.membership, None if self.membership is None else {}
        found = {}
        for before, position in positions.moved.items():
            found[position] = results[before]
            if members is not None and self.membership is not None:
                self.membership[position] = members[before]
        for position, (one, more) in positions.older.items():
            window = replace(one.window, position=position)
            found[position] = self._result(window, one.finished, one.other, one.version, more=more)
        return dict(sorted(found.items()))

    def _corrected(self, run: Run) -> dict[int, WindowResult]:
        """The results of windows that have gained agents, with the first run after those that were published before."""
        found = self.healing.take(run.upto, self.versions.at(self._published_before).function.pane_ms)
        return {one.position: self._result(one, rows, other, version) for one, rows, other, version in found}

    def _shown(
        self, version: InForce, windows: WindowAssembler, updates: Iterable[tuple[ClosedWindow, pl.DataFrame]]
    ) -> dict[int, WindowResult]:
        made = self._made(version, windows, updates)
        return {one.position: self._result(one, rows, other, version, more=more) for one, rows, other, more in made}

    def _made(
        self, version: InForce, windows: WindowAssembler, updates: Iterable[tuple[ClosedWindow, pl.DataFrame]]
    ) -> Iterator[tuple[ClosedWindow, WindowRows, OtherGroups | None, bool]]:
        """The windows that are to be shown, finished, each with whether another one of the same pane follows."""
        function = version.function
        for window, state, more in _with_more(updates):
            is_out = window.pane <= self._published_before
            if is_out and not self._has_gained(window, windows):
                continue  # published by the master before
            start, size_ms = window.start_ms, window.size_ms
            other = None if function.sessions is not None else function.overflow_groups(state, size_ms).get(start)
            if other is not None and function.refuses_others:
                self.failure = _too_many_groups(function.plan, start, other)
            if windows.is_too_large:
                self.failure = TOO_LARGE
            if self.failure is not None:
                break
            begun_s = self.work.clock()
            if function.sessions is not None:
                finished = function.finish_sessions(state)
            else:
                finished = function.finish_windows(state, [start], size_ms, self.work)[start]
            self._note_shown(state.height, len(finished.rows), self.work.clock() - begun_s)
            if is_out:
                self.healing.add(window, finished, other, version)
            else:
                yield window, finished, other, more

    def _note_shown(self, rows: int, shown: int, seconds: float) -> None:
        """Notes the work of a window that is shown."""
        self.work.note(Work.SHOW, 1, rows, seconds)
        self.work.note(Work.SHOWN, 1, shown)
        at_master = self.trees == 1 or not self.moved.owners
        self.work.note(Work.MADE, at_master, rows if at_master else 0)
        self.work.note(Work.MERGE, 0, rows)

    def _has_gained(self, window: ClosedWindow, windows: WindowAssembler) -> bool:
        """Whether a window that is out has gained agents, now that it is made again."""
        size_ms, pane_ms = window.size_ms, windows.function.pane_ms
        if not (window.is_final and size_ms and pane_ms and windows.function.grace.corrects):
            return False
        last = window.start_ms + size_ms - pane_ms
        return self.healing.gains(windows.stretches(window.start_ms), window.start_ms, last, self.roster.expected_in)

    @classmethod
    def from_replica(
        cls,
        replica: Replica,
        epoch: JobEpoch,
        functions: FunctionCache | None = None,
        heal_ms: int = HEAL_RETENTION_MS,
    ) -> JobState:
        """The state of the next master, from the descriptor of the one before. Raises `query.PlanError`."""
        state = cls(replica.job, epoch, replica.submitter, replica.versions, functions)
        # Only the master's agent reads another job's results: from now on this one does.
        members = replica.members if state.app is None else ()
        state.roster = Roster.of(members, replica.next_number, replica.frontier)
        state._published_before, state.heal_ms = replica.frontier, heal_ms
        state.healing = Healing(from_wire(replica.incomplete) if state.app is None else (), replica.frontier)
        ordinary = state.versions.retention_pane(replica.frontier)
        state.frontier = state.healing.begin(state.versions, ordinary, heal_ms, state.roster.expected_in)
        # Panes that open windows need are asked for again: who is in them will be seen then.
        state._incomplete = IncompleteSpans(state.healing.history.within(FIRST_PANE, state.frontier))
        state._unshown = UnshownSpans(UnshownSpan(*span) for span in from_wire(replica.unshown))
        state.written_off = contributors.from_bytes(replica.written_off)
        state.moved = replica.moved.begun_anew()
        state.totals = Counts(*replica.totals)
        return state

    def _result(
        self,
        window: ClosedWindow,
        finished: WindowRows,
        other: OtherGroups | None,
        version: InForce,
        *,
        more: bool = False,
    ) -> WindowResult:
        start, size, drives = window.start_ms, window.size_ms, version.function.self_paced
        missing, counted = window.expected & ~(window.contributors | window.leaped), window.counted
        if self.membership is not None:
            names = (
                tuple(sorted(self.roster.names(numbers)))
                for numbers in (window.expected, missing, window.partial, window.leaped)
            )
            self.membership[window.position] = WindowMembership(version.version, *names)
        given = self.element_losses.total()
        return WindowResult(
            app=self.job.name,
            window_start=query.format_timestamp(start) if size else None,
            window_end=query.format_timestamp(start + (size or 0)) if size or drives else None,
            rows=finished.rows,
            contributors=window.contributors.bit_count(),
            expected=window.expected.bit_count(),
            missing=self.roster.names(missing)[:NAMES_MAX] if missing else [],
            partial=self.roster.names(window.partial)[:NAMES_MAX],
            leaped=window.leaped.bit_count(),
            events=counted.events,
            late=counted.late,
            malformed=counted.malformed,
            coerced=counted.coerced,
            dropped=counted.dropped + max(0, counted.matched - finished.taken),
            other=other,
            limited=finished.limited,
            error=finished.error,
            version=version.version.number,
            epoch=self.epoch.counter,
            final=window.is_final,
            revision=window.revision,
            more=more,
            leaped_over=self.roster.names(window.leaped)[:NAMES_MAX] if window.leaped else [],
            reasons=self._reasons(window) if self._losses else {},
            evicted=given.evicted,
            shed=given.shed,
            lost=given.lost_nodes,
            failed=given.failed,
            missed=given.missed,
            unshown=list(self._unshown_before(window, version.function.pane_ms)) if self._unshown else [],
        )

    @property
    def ready(self) -> int:
        """Bitmap of the agents that have acknowledged the newest version in this epoch and have not left."""
        return self._ready & self.roster.present()

    def everyone_runs(self) -> bool:
        """Whether every agent on the roster has acknowledged the function ("n of n")."""
        return self.ready == self.roster.present()


def _counted(run: Run, function: JobFunction) -> Counted:
    """The counts of a run by pane; what has no time is in the newest one."""
    counted = dict(run.counted)
    untimed = counted.pop(END, None)
    if function.pane_ms is None and run.after < 0 <= run.upto:
        counted.setdefault(0, Counts())
    if untimed and counted:
        newest = max(counted)
        counted[newest] = counted[newest].plus(Counts(malformed=untimed.malformed, coerced=untimed.coerced))
    return counted


def _with_more(
    windows: Iterable[tuple[ClosedWindow, pl.DataFrame]],
) -> Iterator[tuple[ClosedWindow, pl.DataFrame, bool]]:
    """Windows with their states, and whether another one of the same pane follows."""
    before: tuple[ClosedWindow, pl.DataFrame] | None = None
    for window, state in windows:
        if before is not None:
            yield *before, window.pane == before[0].pane
        before = (window, state)
    if before is not None:
        yield *before, False


def window_of(function: JobFunction) -> int:
    """Interval between the starts of windows (ms). Raises `query.PlanError` for a query without windows."""
    if function.pane_ms is None:
        raise query.PlanError("a query without windows ends with its input: it cannot run for ever")
    return function.pane_ms if function.plan.windowing is None else function.plan.windowing.slide_ms


def _too_many_groups(plan: query.Plan, pane: int, other: OtherGroups) -> str:
    size, most = plan.window_ms, plan.max_groups
    window = f"the window from {query.format_timestamp(pane) or pane}" if size else "the result"
    more = f"about {other.about} groups more" if other.about else "more groups"
    has_sessions = plan.windowing is not None and plan.windowing.session is not None
    as_one = "" if has_sessions else ", or let all others be one group with --beyond-groups other"
    return (
        f"{window} has {more} than the {most:,} it may have: raise --max-groups, group by fewer or "
        f"coarser columns{as_one}"
    )
