"""Decodes the versions of a job's function, and keeps those in force, each for its windows (DESIGN §4.4).

A window runs on the version that is in force at its start. So the panes of a job, in their order, fall to one version
after the other: version k computes those in (after of k, after of k + 1], the newest all later ones.

Windows of k that are open then go on *beside* the versions that follow, up to their ends. What they count of that time
goes with the runs of the version in force (`agent.runtime.model.panes.OldPanes`), or is the same as those count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import msgspec
import polars as pl

import query
from agent.runtime.function.grace import grace_of
from agent.runtime.function.job_function import JobFunction
from agent.runtime.messages.jobs import Submit
from agent.runtime.messages.versions import Version
from agent.runtime.model.bundle import Bundle
from agent.runtime.model.panes import END, FIRST_PANE, closed_ms
from overlay import Id


@dataclass(frozen=True, slots=True)
class InForce:
    """A version made runnable. `upto`: its last pane; END for the newest."""

    version: Version
    function: JobFunction
    upto: int

    @property
    def after(self) -> int:
        return self.version.after


class Beside(NamedTuple):
    """A version `old` whose windows go on while `main` computes the job's panes, up to the old pane `upto`. `begun_ms`:
    the last instant of the panes before those of `main`. `is_carried`: its panes are its own, and go with those of
    `main`; else the same are in both.
    """

    old: InForce
    main: InForce
    begun_ms: int
    upto: int
    is_carried: bool

    @property
    def number(self) -> int:
        """The number of the old version."""
        return self.old.version.number

    @property
    def pane_ms(self) -> int:
        """Milliseconds that an old pane lasts."""
        assert self.old.function.pane_ms is not None
        return self.old.function.pane_ms

    def frontier(self, pane: int) -> int:
        """The last old pane that is over with all panes of `main` up to one."""
        is_before = pane <= self.main.after
        closed = self.begun_ms if is_before else max(closed_ms(pane, self.main.function.pane_ms), self.begun_ms)
        return min((closed + 1) // self.pane_ms * self.pane_ms - self.pane_ms, self.upto)

    def carrier(self, end_ms: int) -> int:
        """The pane of `main` with which old panes go that end at a time (epoch ms)."""
        assert self.main.function.pane_ms is not None
        return (end_ms - 1) // self.main.function.pane_ms * self.main.function.pane_ms


REGEX_SIZE_MAX = 10_000
"""Upper bound on the compiled size of one query's regular expressions. The engine keeps a few dozen of all queries, and
compiles others again for each block: this size in 0.15 s."""
PLANS_MAX = 64
"""Number of decoded plans that are kept, those used last: a submission, its master and its worker follow each other."""
TOO_LARGE = (
    "its regular expressions and LIKE patterns are too large together, with repetitions written out: their size is"
    f" {{size:,}}, and at most {REGEX_SIZE_MAX:,} is for one query. Use fewer or simpler ones, such as [a-z] for \\w"
)


class FunctionCache:
    """Decodes each plan and each version of an agent's jobs once, for all services that need them at a time.

    A plan's regular expressions may have at most `regex_size_max`; None: only who asks waits for them.
    """

    def __init__(self) -> None:
        self.regex_size_max: int | None = REGEX_SIZE_MAX
        self.check_elements: Callable[[Mapping[str, Any]], object] = dict
        """Raises `query.PlanError` for elements of a plan that cannot run."""
        self._plans: dict[bytes, query.Plan] = {}
        self._made: WeakValueDictionary[tuple[Id, int, bytes], JobFunction] = WeakValueDictionary()

    def plan(self, plan: dict[str, Any]) -> query.Plan:
        """The plan of a query. Raises `query.PlanError` for what is no plan, and for too large regular expressions."""
        content = msgspec.msgpack.encode(plan)
        known = self._plans.pop(content, None)
        if known is None:
            self._check(plan)
            known = query.Plan.from_wire(plan)
            if known.elements is not None:
                self.check_elements(known.elements)
        if len(self._plans) >= PLANS_MAX:
            del self._plans[next(iter(self._plans))]
        self._plans[content] = known
        return known

    def get(self, job: Submit, number: int, plan: dict[str, Any], bundle: Bundle | None) -> JobFunction:
        """The function of a version of a job. Raises `query.PlanError` for what is no plan."""
        signed = b"" if bundle is None else bundle.contents.digest()
        graced = (job.grace_ms, job.bounded)
        content = msgspec.msgpack.encode((plan, job.since_ms, job.until_ms, job.submitted_ms, signed, graced))
        key = (job.app_id, number, content)
        function = self._made.get(key)
        if function is None:
            read = self.plan(plan)
            # Sources take events in that range; what elements make of them may have other times.
            since_ms, until_ms = (job.since_ms, job.until_ms) if read.elements is None else (None, None)
            made = JobFunction.of(read, since_ms, until_ms, bundle, grace_of(read, job))
            function = self._made[key] = made
        return function

    def _check(self, plan: dict[str, Any]) -> None:
        """Raises `query.PlanError` for a plan with too large regular expressions, which are not even compiled."""
        if self.regex_size_max is not None and (size := query.regex_size(plan)) > self.regex_size_max:
            raise query.PlanError(TOO_LARGE.format(size=size))


class Versions:
    """The versions of one job whose panes are not all published, the oldest first.

    Raises `query.PlanError` for what is no plan.
    """

    def __init__(self, versions: Sequence[Version], job: Submit, functions: FunctionCache) -> None:
        assert versions, "a job has a function"
        self._job = job
        self._functions = functions
        self._in_force: tuple[InForce, ...] = ()
        self._proposed: tuple[int, dict[str, Any], JobFunction] | None = None
        self.change_to(versions)

    def propose(self, number: int, plan: dict[str, Any], bundle: Bundle | None = None) -> JobFunction:
        """Decodes a version that may come. Raises `query.PlanError`."""
        function = self._functions.get(self._job, number, plan, bundle)
        if function.self_paced != self.newest.function.self_paced:
            raise query.PlanError("an update cannot change whether a job drives itself: submit another job")
        if function.plan.elements != self.newest.function.plan.elements:
            raise query.PlanError("an update cannot change the elements of a job: submit another job")
        if function.plan.types != self.newest.function.plan.types:
            raise query.PlanError("an update cannot change which types of events a stage reads: give it another name")
        self._proposed = (number, plan, function)
        return function

    def next_due_ms(self, frontier: int) -> int | None:
        """The time (epoch ms) at which the pane after a frontier is to be out; None where nothing is said of that."""
        function = self.newest.function
        if function.plan.within is None or function.pane_ms is None or frontier in (FIRST_PANE, END):
            return None
        return closed_ms(frontier, function.pane_ms) + 1 + function.pane_ms + function.plan.within.limit_ms

    @property
    def proposed(self) -> int | None:
        """The number of the version that may come, if there is one."""
        return self._proposed[0] if self._proposed is not None else None

    def proposes(self, number: int, plan: dict[str, Any]) -> bool:
        """Whether this very version may come."""
        return self._proposed is not None and self._proposed[:2] == (number, plan)

    @property
    def proposal(self) -> JobFunction | None:
        """The function of the version that may come, if there is one."""
        return self._proposed[2] if self._proposed is not None else None

    @property
    def proposed_code(self) -> bytes | None:
        """The digest of the code of the version that may come, if there is any."""
        return self._proposed[2].code if self._proposed is not None else None

    def withdraw(self) -> None:
        """Gives up the proposed version."""
        self._proposed = None

    def _compiled(self, version: Version) -> JobFunction:
        """The function of a version: the same object whether it is proposed or in force."""
        known = [(one.version.number, one.version.plan, one.function) for one in self._in_force]
        if self._proposed is not None:
            known.append(self._proposed)
        found = next((function for *key, function in known if key == [version.number, version.plan]), None)
        return found or self._functions.get(self._job, version.number, version.plan, version.bundle)

    def change_to(self, versions: Sequence[Version]) -> None:
        """Puts these in force. Raises `query.PlanError`, and changes nothing."""
        if any(older.number >= newer.number or older.after >= newer.after for older, newer in pairwise(versions)):
            raise query.PlanError("the versions of a job follow each other")
        ends = [*(version.after for version in versions[1:]), END]
        self._in_force = tuple(
            InForce(version, self._compiled(version), upto) for version, upto in zip(versions, ends, strict=True)
        )

    def __iter__(self) -> Iterator[InForce]:
        return iter(self._in_force)

    def __len__(self) -> int:
        return len(self._in_force)

    @property
    def trees(self) -> int:
        """The number of trees that the job is computed by, for as long as it runs: that of its first version."""
        return self._functions.plan(self._job.plan).trees

    @property
    def newest(self) -> InForce:
        return self._in_force[-1]

    def all(self) -> list[Version]:
        """The versions as they travel."""
        return [one.version for one in self._in_force]

    def at(self, pane: int) -> InForce:
        """The version that computes a pane."""
        return next((one for one in self._in_force if pane <= one.upto), self.newest)

    def of_span(self, number: int, after: int, upto: int) -> InForce | None:
        """The version of that number, if all panes of the span are its own."""
        found = self.at(upto)
        return found if found.version.number == number and found.after <= after else None

    def ends(self) -> tuple[int, ...]:
        """The last panes of all versions but the newest: no run reaches across."""
        return tuple(one.upto for one in self._in_force[:-1])

    def numbered(self, number: int) -> InForce | None:
        """The version of a number, if it is known."""
        return next((one for one in self._in_force if one.version.number == number), None)

    def functions(self) -> dict[int, JobFunction]:
        """The functions by the numbers of their versions."""
        return {one.version.number: one.function for one in self._in_force}

    def beside(self, pane: int) -> list[Beside]:
        """The older versions whose windows go on in panes of the version that computes this one, the oldest first."""
        main = self.at(pane)
        earlier = [one for one in self._in_force if one.upto <= main.after]
        if not earlier or not main.version.finishes:
            return []
        before, later, found = earlier[-1], main, list[Beside]()
        begun_ms, ways = closed_ms(before.upto, before.function.pane_ms), set[str]()
        for old in reversed(earlier):
            ways.add(later.version.finishes)
            if "" in ways:
                break
            if old.function.can_finish and old.version.starts <= old.upto:
                one = Beside(old, main, begun_ms, old.function.windows_upto(old.upto), "own" in ways)
                if one.frontier(main.after) < one.upto:
                    found.insert(0, one)
            later = old
        return found

    def _open_after(self, frontier: int) -> list[Beside]:
        """The versions whose panes are over, but not all of their windows, once everything up to a pane is."""
        return [one for one in self.beside(frontier + 1) if one.frontier(frontier) < one.upto]

    def retention_pane(self, frontier: int) -> int:
        """The newest pane no unpublished window needs once everything up to `frontier` is published."""
        if frontier in (FIRST_PANE, END):
            return frontier
        one = self.at(frontier + 1)
        needed = min(frontier, max(one.after, one.function.retention_pane(frontier)))
        olds = ((one.old, one.frontier(frontier)) for one in self._open_after(frontier))
        return min([needed, *(max(old.after, old.function.retention_pane(reached)) for old, reached in olds)])

    def combine(self, states: Sequence[pl.DataFrame], upto: int, number: int | None = None) -> pl.DataFrame:
        """Merges the states of a run that ends with this pane, or what goes with it of the version of a number."""
        one = self.at(upto) if number is None else self.numbered(number)
        return states[0] if one is None else one.function.combine(states)  # no window needs it

    def forget(self, frontier: int) -> bool:
        """Drops the versions whose windows are all published; returns whether there were any."""
        before = len(self._in_force)
        is_needed = {one.number for one in self._open_after(frontier)} if before > 1 and frontier < END else set[int]()
        first = next((place for place, one in enumerate(self._in_force)
                      if one.upto > frontier or one.version.number in is_needed), before - 1)  # fmt: skip
        self._in_force = self._in_force[first:]
        return first > 0


def first_version(job: Submit) -> Version:
    """The function of a job as it was submitted."""
    return Version(1, FIRST_PANE, FIRST_PANE, job.plan, job.text, job.bundle)
