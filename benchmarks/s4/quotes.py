"""How late the list of Figure 1 of the paper is: of the quotations that are logged, some have a word that leads it."""

import json
import math
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.agents import live_logs, running_agents
from benchmarks.environment import ROOT, use_two_cores
from benchmarks.jobs.fleets import running_program
from benchmarks.overlay.lines import quantile
from benchmarks.race import BenchmarkError
from benchmarks.recovery.watching import WindowWatch
from benchmarks.replay import TICK_S
from benchmarks.report import Comparison

from .lines import at_most

JOB = ROOT / "elf" / "jobs" / "top_words.py"
APP = "top-words"
RATE = 2_000.0
TARGETS_MS = {False: 200.0, True: 500.0}
"""By whether events are guaranteed."""
WORDS, QUOTE_WORDS = 5_000, 8
LEADING = 2_000
"""So often a word that is to lead the list stands in one quotation; each next one once more."""
SETTLE_S, START_S, POLL_S = 8.0, 60.0, 0.1
"""Time after the first list, which comes once all agents have the job's program, before words count; upper bound on the
time until then."""


class QuoteWriter:
    """Writes quotations to logs, the same share to each, and once a second one with a leading word.

    `leading`: the times (s) at which those were written, by word.
    """

    def __init__(self, paths: list[Path], rate: float) -> None:
        self.leading: dict[str, float] = {}
        self._files = [path.open("ab", buffering=0) for path in paths]
        self._rate = rate
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="quotes")
        self._chance = random.Random(1)

    @contextmanager
    def running(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._stop.set()
            self._thread.join()
            for file in self._files:
                file.close()

    def _run(self) -> None:
        began = next_leading = time.monotonic()
        written = 0
        while not self._stop.wait(TICK_S):
            now = time.monotonic()
            due = int((now - began) * self._rate) - written
            for file in self._files:
                file.write(b"".join(self._line(self._quote()) for _ in range(due // len(self._files))))
            written += due // len(self._files) * len(self._files)
            if now >= next_leading:
                next_leading = now + 1 + 0.1 * self._chance.random()
                self._lead()

    def _lead(self) -> None:
        word = f"leading-{len(self.leading)}"
        line = self._line(" ".join([word] * (LEADING + len(self.leading))))
        self._chance.choice(self._files).write(line)
        self.leading[word] = time.time()

    def _quote(self) -> str:
        return " ".join(f"word{self._chance.randrange(WORDS)}" for _ in range(QUOTE_WORDS))

    @staticmethod
    def _line(text: str) -> bytes:
        moment = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return json.dumps({"created_at": moment, "text": text}).encode() + b"\n"


def run(agents: int, seconds: float, guaranteed: bool) -> list[Comparison]:
    """Logs quotations for some time, and looks in which list each leading word comes first."""
    use_two_cores()
    with (
        running_agents(agents) as (fleet, folder, _),
        running_program(fleet, APP, _code(guaranteed)),
    ):
        watch = WindowWatch(fleet.socket(fleet.names[0]), APP)
        writer = QuoteWriter(live_logs(fleet, folder), RATE)
        with writer.running():
            _until_first_list(watch)
            time.sleep(SETTLE_S)
            began = time.time()
            time.sleep(seconds)
            watch.check()
        time.sleep(SETTLE_S)
        watch.close()
        late_ms = _late_ms({word: at for word, at in writer.leading.items() if at >= began}, watch)
    how = "guaranteed" if guaranteed else "not guaranteed"
    case = f"log line to list beyond every_s, {how}, {RATE:,.0f} quotes/s: {agents} agents"
    return [
        at_most(f"p50 of {len(late_ms)}, {case}", quantile(late_ms, 0.5), "ms", TARGETS_MS[guaranteed]),
        at_most(f"p99 of {len(late_ms)}, {case}", quantile(late_ms, 0.99), "ms"),
    ]


def _until_first_list(watch: WindowWatch) -> None:
    deadline = time.monotonic() + START_S
    while not watch.since(0.0):
        watch.check()
        if time.monotonic() > deadline:
            raise BenchmarkError(f"no list came within {START_S:g} s")
        time.sleep(POLL_S)


def _late_ms(leading: dict[str, float], watch: WindowWatch) -> list[float]:
    """For each leading word, the time from the end of the second in which it was logged to the list with it."""
    first: dict[str, float] = {}
    for found in watch.since(0.0):
        for row in found.result.rows:
            first.setdefault(str(row["word"]), found.at_s)
    if missing := [word for word in leading if word not in first]:
        raise BenchmarkError(f"{len(missing)} of {len(leading)} leading words came in no list: {missing[:3]}")
    return [1000 * (first[word] - math.ceil(at)) for word, at in leading.items()]


def _code(guaranteed: bool) -> bytes:
    """The shipped job, over the stream that agents have here, without patience for late events."""
    code = JOB.read_text(encoding="utf-8").replace("FROM quotes", "FROM web")
    code = code.replace("WINDOWING 1 SECOND", "WINDOWING 1 SECOND GRACE 0 SECONDS")
    if not guaranteed:
        code = code.replace("@elf.event\n", "@elf.event(guaranteed=False)\n").replace(
            'FROM web")', 'FROM web", guaranteed=False)'
        )
    return code.encode()
