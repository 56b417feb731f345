"""Real agents that count the words of logs which grow, with guaranteed elements, and a count of the same logs."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest import mock

import elf_process

from agent.control.messages import ElementState
from elf.client import ClientError, SyncClient
from elf.demo.agents.agents import AgentFleet, AgentSpec, StreamFiles

AGENTS = 4
LINES, EVERY_S = 2, 0.25
"""Lines that each log gets at a time, and the time between."""
PATIENCE_S = 60.0
COMMIT_S = 0.1
"""Time between two commits of a host."""
WORDS = [f"{letter}{number}" for letter in "abcd" for number in range(6)]
JOB = '''
import time

import elf

Line = elf.source("SELECT text FROM lines")


@elf.event
class Word:
    word: str


@elf.event
class Counted:
    group: str
    word: str
    n: int


@elf.event
class Checked:
    right: int


class Split(elf.PE):
    keys = {Line: None}

    def process_event(self, line):
        for word in line.text.split():
            self.emit(Word(word))


class Count(elf.PE):
    keys = {Word: "word"}
    n: int = 0

    def process_event(self, event):
        if event.word == "slow":
            time.sleep(2)
        self.n += 1
        self.emit(Counted(event.word[0], event.word, self.n))


class Check(elf.PE):
    """Each update of a word is one more than the one before it."""

    keys = {Counted: "group"}
    last: dict[str, int] = {}
    wrong: list[str] = []

    def process_event(self, event):
        if event.n != self.last.get(event.word, 0) + 1:
            self.wrong.append(f"{event.word}: {event.n} after {self.last.get(event.word, 0)}")
        self.last[event.word] = event.n
        self.emit(Checked(1))


class Total(elf.PE):
    keys = {Checked: 1}
    n: int = 0

    def process_event(self, event):
        self.n += event.right


class Counts(elf.Job):
    elements = [Split, Count, Check, Total]
    query = "SELECT COUNT(*) AS n FROM Counted WINDOWING 1 SECOND"
'''


class GrowingLogs:
    """Logs of words, one beside each agent, to which lines are written steadily; and how often each word is in them."""

    def __init__(self, folder: Path, chance: random.Random, agents: int = AGENTS) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.paths = [folder / f"lines-{number}.json" for number in range(1, agents + 1)]
        self.counts: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._asked: list[str] = []
        self._chance = chance
        self._is_over = threading.Event()
        self._writer = threading.Thread(target=self._write, daemon=True)
        for path in self.paths:
            path.write_text("")

    def _write(self) -> None:
        files = [path.open("a", buffering=1) for path in self.paths]
        while not self._is_over.wait(EVERY_S):
            for file in files:
                for _ in range(LINES):
                    words = self._chance.choices(WORDS, weights=range(len(WORDS), 0, -1), k=3)
                    words += [self._asked.pop()] if self._asked else []
                    now = datetime.now(UTC).isoformat()
                    with self._lock:
                        file.write(json.dumps({"time": now, "text": " ".join(words)}) + "\n")
                        self.counts.update(words)
        for file in files:
            file.close()

    def grow(self) -> None:
        """Lines are written from now on."""
        self._writer.start()

    def written(self) -> Counter[str]:
        """How often each word is in them now."""
        with self._lock:
            return self.counts.copy()

    def write(self, word: str) -> None:
        """Writes this word once, too."""
        self._asked.append(word)

    def stop(self) -> None:
        """No more lines are written."""
        self._is_over.set()
        if self._writer.is_alive():
            self._writer.join()


class CountedLogs:
    """A fleet with the job, and what its elements hold. `with` starts it, and lets the logs grow."""

    app = "counts"
    job = JOB

    def __init__(self, folder: Path, seed: int, logs: GrowingLogs | None = None) -> None:
        self.chance = random.Random(seed)
        self.folder = folder
        self.logs = logs or GrowingLogs(folder / "logs", random.Random(seed + 1))
        streams = [(StreamFiles("lines", (str(path),), "beginning"),) for path in self.logs.paths]
        specs = [AgentSpec(f"agent-{number}", stream) for number, stream in enumerate(streams, 1)]
        self.fleet = AgentFleet(folder / "agents", specs)
        self.stopped: set[str] = set()
        """Agents that stand still."""
        self._total = 0
        self._checked: dict[str, int] = {}
        """The most that has been seen: agents are too busy to answer now and then."""
        self.refusal = ""
        """Why the last question for a state that was not answered was not."""

    @contextmanager
    def running(self) -> Iterator[CountedLogs]:
        """The fleet runs the job, and has counted something."""
        job = self.folder / "counts.py"
        job.write_text(self.job)
        with self.fleet:
            submitted = self.elf("submit", str(job))
            assert submitted.code == 0, submitted.err
            self.logs.grow()
            try:
                self.until(lambda: self.counted() > 0, lambda: f"nothing is counted: {self.refusal}")
                yield self
            finally:
                self.logs.stop()
            assert self.fleet.faults() == []

    def elf(self, *words: str) -> elf_process.Finished:
        """The command line of an agent that runs."""
        environment = {"ELF_SOCKET": str(self.fleet.socket(self._running())), "ELF_CREATOR": str(self.fleet.creator)}
        with mock.patch.dict(os.environ, environment):
            return elf_process.elf(*words)

    def _running(self) -> str:
        names = self.fleet.names
        return self.chance.choice([one for one in names if self.fleet.is_running(one) and one not in self.stopped])

    def client(self, name: str = "") -> SyncClient:
        """A client of an agent that runs: of this one, or of any."""
        return SyncClient(str(self.fleet.socket(name or self._running())), PATIENCE_S)

    # Faults.

    def wait_for_an_instant(self) -> None:
        """Waits for some moment of a commit's cycle."""
        time.sleep(self.chance.uniform(0, COMMIT_S))

    def kill(self, *names: str) -> None:
        """Kills agents at some moment, and starts them again."""
        self.wait_for_an_instant()
        for name in names:
            self.fleet.process(name).signal(signal.SIGKILL)
        for name in names:
            self.fleet.kill(name)  # waits for its end
            self.fleet.launch(name)
        self.fleet.wait_ready(names)

    def stand_still(self, name: str, seconds: float) -> None:
        """Stops an agent for a while, as a machine that is out of memory does."""
        self.wait_for_an_instant()
        self.stopped.add(name)
        self.fleet.process(name).signal(signal.SIGSTOP)
        time.sleep(seconds)
        self.fleet.process(name).signal(signal.SIGCONT)
        self.stopped.remove(name)

    # What the elements hold.

    def states(self, element: str, key: object) -> list[ElementState]:
        """The states of one element; none where no agent has it now, or agents are too busy to say."""
        try:
            return self.client().elements(self.app, key=(key,), element=element).states
        except (ClientError, OSError) as error:
            self.refusal = f"{element} {key}: {error}"
            return []

    def state(self, element: str, key: object) -> Any:
        """The state of one element."""
        found: list[Any] = []

        def is_known() -> bool:
            found[:] = filter(None, [self._newest(element, key)])
            return bool(found)

        self.until(is_known, lambda: f"nobody has {element} {key}")
        return found[0]

    def counted(self) -> int:
        """The updates that have come to the last element; 0 where it is not known."""
        found = self._newest("Total", 1)
        return found["n"] if found else 0

    def until(self, condition: Callable[[], bool], what: Callable[[], object], patience_s: float = PATIENCE_S) -> None:
        """Waits for a condition."""
        deadline = time.monotonic() + patience_s
        while not condition():
            assert time.monotonic() < deadline, what()
            time.sleep(0.1)

    def lacking(self, written: Counter[str]) -> dict[str, tuple[int, int]]:
        """What the last stages have not counted yet: how much of it they have, and how much has been written."""
        if self._total < written.total():
            self._total = self.counted()
        if self._total < written.total():
            return {"all words": (self._total, written.total())}
        lacking = self._unchecked(written)
        for group in sorted({word[0] for word in lacking}):
            self._checked |= (self._newest("Check", group) or {"last": {}})["last"]
        return self._unchecked(written)

    def _unchecked(self, written: Counter[str]) -> dict[str, tuple[int, int]]:
        checked = self._checked
        return {word: (checked.get(word, 0), n) for word, n in written.items() if checked.get(word, 0) < n}

    def _told(self, written: Counter[str]) -> str:
        """What is not as it should be, and what agents say of it."""
        try:
            lost = {one.agent: one.lost for one in self.client().elements(self.app).elements}
        except (ClientError, OSError) as error:
            lost = {str(error): 0}
        checks = self._checks()
        stages = {
            "Count": self._differing(written, self._counts(written)),
            "Check": self._differing(written, _last_of(checks)),
            "out of order": [wrong for check in checks for wrong in check["wrong"]],
        }
        told = f"by Total, and written: {self.counted(), written.total()}; by word: {stages}"
        return f"counted {told}; lost nodes: {lost}; last refusal: {self.refusal}"

    @staticmethod
    def _differing(written: Counter[str], found: dict[str, int]) -> dict[str, tuple[int, int]]:
        return {word: (found.get(word, 0), n) for word, n in written.items() if found.get(word, 0) != n}

    def _newest(self, element: str, key: object) -> Any:
        """The state of one element as it is known at this moment; None where it is not."""
        found = self.states(element, key)
        return max(found, key=lambda one: one.epoch).state if found else None

    def _counts(self, written: Counter[str]) -> dict[str, int]:
        found = {word: self._newest("Count", word) for word in written}
        return {word: state["n"] for word, state in found.items() if state}

    def _checks(self) -> list[Any]:
        """The states of the elements that check updates, as far as they are known at this moment."""
        return [*filter(None, (self._newest("Check", group) for group in sorted({word[0] for word in WORDS})))]

    def until_caught_up(self) -> None:
        """Waits until each word that is in the logs now has been counted by all stages, and all that is counted has its
        standbys again, so that the next agent may die."""
        written = self.logs.written()
        self.until(lambda: not self.lacking(written), lambda: self._told(written))
        self.until(lambda: not self.under_replicated(), self.under_replicated)

    def under_replicated(self) -> dict[str, int]:
        """The nodes of each agent that lack standbys; -1 of an agent that has not answered."""
        told = dict.fromkeys(filter(self.fleet.is_running, self.fleet.names), -1)
        with suppress(ClientError, OSError):
            for one in self.client().elements(self.app).elements:
                told[one.agent] = max(told[one.agent], one.under_replicated)
        return {name: nodes for name, nodes in told.items() if nodes}

    def assert_exact(self) -> None:
        """All that is in the logs, which grow no more, has been counted once by every stage, and every update came once
        and in order."""
        self.logs.stop()
        self.until_caught_up()
        written = self.logs.written()
        counts = {word: self.state("Count", word)["n"] for word in sorted(written)}
        differing = self._differing(written, counts)
        assert not differing, f"counted, and in the logs: {differing}; {self._told(written)}"
        checks = {group: self.state("Check", group) for group in sorted({word[0] for word in written})}
        wrong = {group: check["wrong"] for group, check in checks.items() if check["wrong"]}
        assert not wrong, f"updates out of order: {wrong}"
        assert _last_of([*checks.values()]) == counts
        assert self.counted() == written.total(), (self.counted(), written.total())


def _last_of(checks: list[Any]) -> dict[str, int]:
    """The last update of each word that has been checked."""
    return {word: n for check in checks for word, n in check["last"].items()}
