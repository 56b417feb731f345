"""The oracle: what must hold of everything that was published in a life (docs/guarantees.md, "Always").

It knows every log. What is not promised is not asked for, and each such place says so here:

- Of an agent that is partial in a window only this holds: what is counted was logged in the window's time, and once.
- Events that were logged later than the grace, or close to a step of their server's clock, may be in their window or
  late.
- After cuts and stalls of a master two masters may publish a window; a follower gets one of them.
- An agent that has lost its disk and starts while its clock is ahead believes it. Up to the latest time that it has
  believed, it may be missing, or whole without its events; if it is half of the fleet, a master may leap that far.
- Late events are counted exactly where nobody died, left, was cut off or had a clock step, or was in some trees of a
  window only; elsewhere never too many.
"""

from __future__ import annotations

import json
import re
import traceback
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from lived import OracleLife, live
from oracle_fleet import STEP_SLACK_MS, OracleFleet
from reader_judgement import check_readers, end_of, ms
from schedules import Schedule
from simulated_fleet import Window

from agent import PublishedWindow
from agent.runtime.function.result import NAMES_MAX
from agent.runtime.model.panes import FIRST_PANE

TUMBLING = ("tumbling", "recovering", "leaping", "mirroring", "trees", "mapped", "staged", "folded")
COPIED = ("tumbling", "mirroring", "trees", "mapped", "staged")
"""Jobs whose windows wait for the copies of what a dead agent had sealed."""
KILLS = {"crash", "wipe", "gone"}
"""Faults in which one agent is killed."""
SLOWS = {"mute", "slow"}
"""Faults for which windows wait."""
DIVIDES = {"cut", "one-way", "stall", "loss"}
"""Faults in which an agent may take over while the master lives."""
KEEPS_LATE = {"stall", "mute", "slow", "loss", "twice", "disk", "slow-disk", "full-disk", "busy", "join"}
"""Faults in which every late event is counted."""
ENDS = {"crash", "wipe", "gone", "fleet", "leave", "cut", "one-way", "stall", "loss", "join"}
"""Faults in which a master may end before it has published what it made."""
SHORT_MS = 3000
"""Length of the windows of those jobs whose events are in one of them each."""
SETTLED_MS = 6000
"""Late events of so long before the end are in a result by then."""
Event = tuple[str, int]
"""An agent, and the place of the event in its log."""


class BrokenPromiseError(AssertionError):
    """Something that docs/guarantees.md promises does not hold."""


@dataclass
class Judgement:
    """Checks one life."""

    life: OracleLife
    counted: Counter[tuple[Event, int]] = field(default_factory=Counter)
    """How often each event is in final windows of the shortest size, by version."""

    @property
    def fleet(self) -> OracleFleet:
        return self.life.fleet

    def hold(self, promise: bool, what: str) -> None:
        if not promise:
            raise BrokenPromiseError(f"{what}\n  {self.life.about()}")

    def check(self) -> None:
        """Raises BrokenPromiseError for the first thing that does not hold."""
        windows = self.fleet.of(self.fleet.app)
        for window in windows:
            self._check_names(window)
            if self.life.schedule.job == "sessions":
                self._check_sessions(window)
            else:
                self._check_events(window)
        self._check_once(windows)
        if self.life.schedule.job in TUMBLING:
            self._check_late(windows)
        self._check_copies(windows)
        if self.life.schedule.job == "changes" and self.life.schedule.kinds() == {"cut"}:
            self._check_corrected()
        self._check_follower(windows)
        self._check_end(windows)
        if self.life.schedule.job == "staged":
            check_readers(self.life, self.hold)

    # One window.

    def _check_names(self, window: Window) -> None:
        """Who is lacking is said."""
        result, about = window.result, f"names in {_short(window)}"
        missing = window.expected - window.contributors - window.leaped
        self.hold(window.leaped <= window.expected, about)
        self.hold(window.partial <= window.contributors, about)
        self.hold(result.expected == len(window.expected) and result.contributors == len(window.contributors), about)
        self.hold(result.leaped == len(window.leaped) and set(result.leaped_over) == window.leaped, about)
        self.hold(set(result.missing) == missing and len(result.missing) <= NAMES_MAX, f"missing: {about}")
        self.hold(set(result.partial) == window.partial, f"partial: {about}")
        self.hold(window.contributors <= window.expected, f"more than expected: {about}")

    def _check_events(self, window: Window) -> None:
        """Nobody twice; whole means whole; one function a window."""
        start, end, final, about = window.pane, end_of(window), window.result.final, _short(window)
        got = self._check_rows(window.result.rows, (start, end), window.version.text, about)
        for name, numbers in got.items():
            self.hold(not numbers or name in window.contributors, f"{name} counts but is no contributor: {about}")
            if final and name in window.contributors - window.partial:
                fits = self._logged(name, (start, end), window.version.text)
                lacks = sorted(number for number in fits - numbers if self._must_be_in(name, number))
                self.hold(not lacks, f"{name} is whole without {lacks}: {about}")
        total = sum(map(len, got.values()))
        is_all = not window.partial and "WHERE" not in window.version.text  # `events` also has what WHERE leaves out
        self.hold(total == window.result.events if is_all else True, f"events, not {total}: {about}")
        if final and end - start <= SHORT_MS:
            events = ((name, number) for name, numbers in got.items() for number in numbers)
            self.counted.update((event, window.version.number) for event in events)

    def _check_rows(
        self, rows: Iterable[dict[str, Any]], span: tuple[int, int], text: str, about: str
    ) -> dict[str, set[int]]:
        """The events of each agent: none twice, all of them from the window's time, and wanted by its version."""
        got: dict[str, set[int]] = {name: set() for name in self.fleet.servers}
        for row in rows:
            numbers, mine = json.loads(row["ids"]), got[row["agent"]]
            self.hold(len(numbers) == row["n"], f"count of {row} in {about}")
            twice = [number for number, count in Counter([*numbers, *mine]).items() if count > 1]
            self.hold(not twice, f"twice in one window: {twice} of {row['agent']} in {about}")
            mine.update(numbers)
        for name, numbers in got.items():
            strange = sorted(numbers - self._logged(name, span, text))
            self.hold(not strange, f"{name}: {strange} are not of this window or version: {about}")
        return got

    def _logged(self, name: str, span: tuple[int, int], text: str) -> set[int]:
        """The events of a log that belong to a window, by the query that is in force."""
        left_out = re.findall(r"product <> '(.)'", text)
        log = enumerate(self.fleet.servers[name].log)
        return {number for number, (time, product) in log if span[0] <= time < span[1] and product not in left_out}

    def _must_be_in(self, name: str, number: int) -> bool:
        """An event that was logged in time, by a clock that had not stepped and did not soon after, nor misled its
        agent.
        """
        logged, (time, _) = self.fleet.logged[name][number], self.fleet.servers[name].log[number]
        if time <= self.fleet.misled_upto.get(name, FIRST_PANE):
            return False
        steps = self.fleet.steps_ms.get(name, ())
        return logged.is_prompt and not any(0 <= step - logged.true_ms < STEP_SLACK_MS for step in steps)

    def _check_sessions(self, window: Window) -> None:
        """Each session of an agent that is whole is what its log has between the session's bounds."""
        for row in window.result.rows:
            log = self.fleet.servers[row["agent"]].log
            low, high = ms(row["window_start"]), ms(row["window_end"])
            fits = [number for number, (time, _) in enumerate(log) if low <= time <= high]
            about = f"{row} of {fits} in {_short(window)}"
            self.hold(row["n"] <= len(fits) and row["s"] <= sum(fits), f"more than logged: {about}")
            self.hold(row["agent"] in window.contributors, f"a session of nobody: {about}")

    # All windows.

    def _check_once(self, windows: list[Window]) -> None:
        """No window twice, but by two masters that did not know of each other, or with a higher revision."""
        finals = Counter(
            (
                window.pane,
                end_of(window),
                window.result.revision,
                window.epoch if self.life.schedule.kinds() & DIVIDES else None,
            )
            for window in windows
            if window.result.final
        )
        if self.life.schedule.job != "sessions":
            self.hold(not finals or max(finals.values()) == 1, f"published twice: {_more(finals)}")
        if not self.life.schedule.kinds() & DIVIDES and self.life.schedule.job in TUMBLING:
            several = _more(self.counted)
            self.hold(not several, f"in several windows of a version: {several}")

    def _check_follower(self, windows: list[Window]) -> None:
        """It gets each window once and in order, and none is left out between the first and the last."""
        notices = [one for one in self.fleet.follower.followed[self.fleet.key] if isinstance(one, PublishedWindow)]
        places = [one.pane for one in notices]
        self.hold(places == sorted(set(places)), f"shown twice or out of order: {places}")
        shown = [bytes(one.result) for one in notices]
        self._check_inherited(self._inherited(windows))
        if not windows or self.life.schedule.kinds() & {"update", "cut", "one-way"}:
            return
        finals = [one for one in windows if one.result.final]
        texts = [json.loads(line) for line in shown]
        got = {(one["window_start"], one["window_end"]) for one in texts if one.get("final", True)}
        self.hold(bool(got), "nothing was shown")
        last = max(end_of(one) for one in finals)
        lacks = [
            _short(one)
            for one in finals
            if (one.result.window_start, one.result.window_end) not in got and end_of(one) < last
        ]
        self.hold(not lacks, f"never shown: {lacks}")

    def _inherited(self, windows: list[Window]) -> list[dict[str, Any]]:
        """What was shown although the master that had made it ended before it was out."""
        made = {window.result.to_bytes() for window in windows}
        notices = [one for one in self.fleet.follower.followed[self.fleet.key] if isinstance(one, PublishedWindow)]
        return [json.loads(bytes(one.result)) for one in notices if bytes(one.result) not in made]

    def _check_inherited(self, results: list[dict[str, Any]]) -> None:
        """What a master had given its replicas before it ended, its successor publishes."""
        about = "something was shown that no master published"
        self.hold(not results or bool(self.life.schedule.kinds() & ENDS), about)
        for result in results if self.life.schedule.job != "sessions" else []:
            span = (ms(result["window_start"]), ms(result["window_end"]))
            self._check_rows(result["rows"], span, "", f"inherited: {result}")

    def _check_late(self, windows: list[Window]) -> None:
        """What is in no window is late, and nothing else is."""
        if not windows or self.life.schedule.kinds() & DIVIDES - KEEPS_LATE:
            return
        last: dict[int, Window] = {window.pane: window for window in windows}
        late = sum(window.result.late for window in last.values())
        end = max(end_of(window) for window in windows)
        counted = {event for event, _ in self.counted}
        for result in self._inherited(windows) if self.life.schedule.kinds() & ENDS else ():
            if ms(result["window_start"]) not in last:
                late += result["late"]
                counted |= {(row["agent"], number) for row in result["rows"] for number in json.loads(row["ids"])}
        out, settled = 0, 0
        versions = {window.version.text for window in windows}
        for name, server in self.fleet.servers.items():
            first = min(self.fleet.read_from.get(name, [len(server.log)]))
            begin = min((window.pane for window in windows if name in window.expected), default=end)
            for number, (time, _) in enumerate(server.log):
                if (name, number) in counted:
                    continue
                out += 1
                is_settled = begin <= time < end and self.fleet.logged[name][number].true_ms < end - SETTLED_MS
                settled += number >= first and is_settled
        self.hold(late <= out, f"{late} late events of {out} that are in no window")
        # What one of several trees lacks of an agent is counted by nobody.
        lacks_trees = self.life.schedule.job == "trees" and any(one.partial for one in windows)
        is_exact = self.life.schedule.kinds() <= KEEPS_LATE and not lacks_trees
        if is_exact and len(versions) == 1:
            self.hold(settled <= late, f"{late} late events, while {settled} are in no window")

    def _check_copies(self, windows: list[Window]) -> None:
        """What the only agent that was killed had sealed a moment before is in its windows."""
        kinds = [fault.kind for fault in self.life.schedule.faults]
        is_alone = set(kinds) <= KILLS | SLOWS and sum(kind in KILLS for kind in kinds) == 1
        for name, upto in self.fleet.copied_upto.items() if is_alone and self.life.schedule.job in COPIED else ():
            for window in windows:
                is_owed = window.pane <= upto and name in window.expected
                self.hold(not is_owed or name in window.contributors, f"{name} had sealed {upto}: {_short(window)}")

    def _check_corrected(self) -> None:
        """After cuts nobody is missing in the last results of windows that may change."""
        last: dict[str, dict[str, Any]] = {}
        for one in self.fleet.follower.followed[self.fleet.key]:
            result = json.loads(bytes(one.result)) if isinstance(one, PublishedWindow) else {"final": False}
            if result.get("final", True):
                last[result["window_start"]] = result
        for result in last.values():
            self.hold(not result["missing"], f"never corrected: {result}")

    def _check_end(self, windows: list[Window]) -> None:
        """Everything is well again: one master, windows that come, and everybody is in them."""
        fleet = self.fleet
        misled = {name for name, upto in fleet.misled_upto.items() if upto > fleet.wall_ms - SETTLED_MS}
        there = {server.name for server in fleet.workers() if server.is_up} - misled
        self.hold(len(fleet.masters(fleet.app)) == 1, f"{len(fleet.masters(fleet.app))} masters")
        last = [window for window in windows if window.result.final][-3:]
        (_, master), *_ = fleet.masters(fleet.app)
        goes_on = fleet.now - last[-1].at < 12.0 if last else False
        if self.life.schedule.job == "sessions":  # one that nothing interrupts has no end
            goes_on |= fleet.wall_ms - master.published_upto < 6000
        if 2 * len(misled) < len(there | misled) or not misled:
            self.hold(goes_on, "no window comes any more")
            back: set[str] = set().union(*(window.contributors for window in last))
            self.hold(there <= back, f"without {sorted(there - back)} in the end")
        for server in fleet.servers.values():
            if server.is_up:
                server.node.check()


def failure(schedule: Schedule) -> str | None:
    """Lives a schedule; says why it fails, if it does. Whatever an agent's core raises is a failure as well."""
    try:
        Judgement(live(schedule)).check()
    except Exception as error:
        return str(error) if isinstance(error, BrokenPromiseError) else f"{schedule!r}\n{traceback.format_exc()}"
    return None


def _more(found: Counter[Any]) -> list[Any]:
    return [one for one, count in found.items() if count > 1][:10]


def _short(window: Window) -> str:
    result = window.result
    members = {name: sorted(getattr(window, name)) for name in ("expected", "contributors", "partial", "leaped")}
    return (
        f"[{window.pane}, {end_of(window)}) at {window.at:.2f} by {window.epoch[1]}, version {window.version.number}: "
        f"{members}, missing {result.missing}, late {result.late}, events {result.events}"
    )
