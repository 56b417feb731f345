"""Measures how long the results of one master take, from the end of their windows to their publication.

A result is made, and replicated, before it is known when it will be out. So what its line says of that is added as it
is published, and the next master's copies of lines that this one has published do not say it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import msgspec

from agent.parsing import parse_time
from agent.runtime.function.result import WindowResult
from agent.runtime.master.results.late_json import LateJson, ResultJson, ending_with
from agent.runtime.master.state import JobState
from agent.runtime.messages.views.latency import LatencyView, SlowAgent
from agent.runtime.model.latency.critical_path import CriticalPath, micros_of
from agent.runtime.model.latency.part_meter import PartStatistics
from agent.runtime.model.latency.recent_latency import LatencyGeneration, RecentLatency, ResultLatency, with_ways_of
from agent.runtime.model.panes import END, Run, closed_ms, total
from agent.runtime.model.step_clock import StepClock
from query.latency.phases import Phase
from query.latency.statistics import PhaseStatistics, phases_to_bytes

Paths = Mapping[int, CriticalPath]
"""The paths of results, by their positions."""

COUNTED_MAX = 60
"""Number of publications over which events a second are counted."""
GROUP_POINTS = 16
"""Upper bound on the last panes whose groups are told of."""
OWN_PART_WEIGHT = 0.05
"""Weight of the last result in the time that the master's own part takes."""


@dataclass(frozen=True, slots=True)
class MadeResult:
    """A result that is made: the end of its window (epoch ms), seconds in each phase so far, and whose part was last.

    `made_at`: the time when it was made (s). `version`: that which it is of. `limit_ms`: the time in which it is to be
    out; None: none is stated."""

    end_ms: int
    phases: dict[Phase, float]
    agent: int
    made_at: float
    version: int
    limit_ms: int | None


class LatencyMeter:
    """Measures the results of one master, whose name is `name`. `clock` tells the time."""

    def __init__(self, state: JobState, name: str, clock: StepClock) -> None:
        self.recent = RecentLatency()
        self._counted: deque[tuple[float, int]] = deque(maxlen=COUNTED_MAX)
        """The events in all results, at the times of the last ones."""
        self.own_part_s = 0.0
        """Time that finishing and committing a result takes: the longest of late, which fades with each result."""
        self.on_measured: Callable[[ResultLatency, int, float], None] | None = None
        """Takes what each result has taken, its version, and the time."""
        self._groups: deque[tuple[int, int]] = deque(maxlen=GROUP_POINTS)
        """The events and the groups of panes."""
        self._state, self._name, self._clock = state, name, clock

    def note_groups(self, run: Run) -> None:
        """Counts the groups of a run's panes, where a limit is stated and all of them come here."""
        if self._state.versions.newest.function.plan.within is None:
            return
        if run.state.height and self._state.trees == 1 and not run.patches and not run.before:
            panes, events = max(1, run.state["pane"].n_unique()), total(run.counted.values()).events
            self._groups.append((events // panes, -(-run.state.height // panes)))

    def made(self, results: Iterable[tuple[int, WindowResult]], paths: Paths) -> dict[int, MadeResult]:
        """The results that are made now and will not change, as far as their paths are known."""
        found = {}
        for position, result in results:
            path = paths.get(position)
            end_ms = None if result.window_end is None else parse_time(result.window_end)
            if path is None or end_ms is None or not result.final or result.revision:
                continue
            if end_ms <= self._state.job.submitted_ms:
                continue  # nobody could have had it in time
            version = self._state.versions.at(position)
            within = version.function.plan.within
            spent = path.phases() | {Phase.FINISH: max(0.0, self._clock.now - path.at)}
            limit_ms = None if within is None else within.limit_ms
            found[position] = MadeResult(
                end_ms, spent, path.agent, max(self._clock.now, path.at), version.version.number, limit_ms
            )
        return found

    def published(
        self, made: Mapping[int, MadeResult], json: Iterable[tuple[int, ResultJson]]
    ) -> tuple[tuple[int, ResultJson], ...]:
        """Counts results that are published now; their lines, with what is to be said of that."""
        self._counted.append((self._clock.now, self._state.totals.events))
        return tuple((position, self._line(made.get(position), line)) for position, line in json)

    def view(
        self, parts: PartStatistics, ways_s: Iterable[float], results: LatencyGeneration | None = None
    ) -> LatencyView:
        """Everything known of the latest results, of all agents' parts, and of the ways to those who follow now.
        `results`: of these alone."""
        found, last = results or self.recent.statistics(), self.recent.last
        deliver = PhaseStatistics()
        for way_s in ways_s:
            deliver.add(way_s)
        within, roster = self._state.versions.newest.function.plan.within, self._state.roster
        slowest = [(roster.member(number), count, micros) for number, count, micros in parts.longest()]
        return LatencyView(
            self._state.job.app_id,
            self._state.job.name,
            self._name,
            self._state.text,
            0 if within is None else within.limit_ms,
            None if within is None else within.percent,
            found.results,
            found.met,
            found.missed,
            found.total.to_bytes(),
            found.skew.to_bytes(),
            phases_to_bytes(found.phases | {Phase.DELIVER: deliver}),
            0 if last is None else micros_of(last.latency_s),
            [] if last is None else [micros_of(last.phases.get(phase, 0.0)) for phase in Phase],
            sorted(found.agents.items(), key=lambda one: (-one[1], one[0])),
            phases_to_bytes(parts.phases),
            [SlowAgent(member.name, count, micros) for member, count, micros in slowest if member is not None],
            self._events_s(),
            roster.present().bit_count(),
            group_points=list(self._groups),
        )

    def _events_s(self) -> float:
        """Events a second in the results of late."""
        if len(self._counted) < 2:
            return 0.0
        (since, before), (until, events) = self._counted[0], self._counted[-1]
        return (events - before) / max(1e-3, until - since)

    def _line(self, made: MadeResult | None, line: ResultJson) -> ResultJson:
        if made is None:
            return line
        now = self._clock.now
        latency_s = (self._clock.wall_ms - made.end_ms) / 1000
        phases = with_ways_of(latency_s, made.phases | {Phase.COMMIT: max(0.0, now - made.made_at)})
        is_met = None if made.limit_ms is None else 1000 * latency_s <= made.limit_ms
        member = self._state.roster.member(made.agent)
        own_s = phases[Phase.FINISH] + phases[Phase.COMMIT]
        self.own_part_s = max(own_s, self.own_part_s + OWN_PART_WEIGHT * (own_s - self.own_part_s))
        result = ResultLatency(latency_s, phases, "" if member is None else member.name, is_met)
        self.recent.note(result)
        if self.on_measured is not None:
            self.on_measured(result, made.version, now)
        if made.limit_ms is None:
            return line
        said: dict[str, object] = {"within_ms": made.limit_ms, "latency_ms": round(1000 * latency_s, 1), "met": is_met}
        if not is_met:
            said["slowest"] = result.slowest(self._name)
        fields = msgspec.json.encode(said)
        return line.ending_with(fields) if isinstance(line, LateJson) else ending_with(line, fields)


def paths_of(
    path: CriticalPath | None, upto: int, pane_ms: int | None, results: Mapping[int, WindowResult]
) -> dict[int, CriticalPath]:
    """The paths of the results of a run up to a pane. What has ended before its last pane has waited for that."""
    if path is None or pane_ms is None or upto == END:
        return {}
    end_ms, found = closed_ms(upto, pane_ms) + 1, {}
    for position, result in results.items():
        window_end = None if result.window_end is None else parse_time(result.window_end)
        if window_end is not None:
            found[position] = path.waited(max(0, end_ms - window_end) / 1000)
    return found
