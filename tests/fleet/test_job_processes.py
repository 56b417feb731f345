"""Jobs in Python on agents in earnest: submitted, read, changed, stopped; hostile ones beside good ones."""

from __future__ import annotations

import json
import os
import textwrap
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import dropwhile, islice
from pathlib import Path
from unittest import mock

import elf_process
import pytest
from seeds import seeds

from agent.programs.confinement import refusal
from elf.client import RefusedError, SyncClient
from elf.demo.agents.agents import AgentFleet, AgentSpec, StreamFiles

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(refusal() is not None, reason=f"programs cannot be contained here: {refusal()}"),
]
AGENTS = 3
DEADLINE_S = 120.0
GOOD = """
    import elf

    class Good(elf.Job):
        query = "SELECT product, COUNT(*) AS n FROM web GROUP BY product WINDOWING 1 SECOND GRACE 1 SECOND"

        def on_result(self, window):
            self.log(f"{sum(row['n'] for row in window.rows)} of {window.events}")
"""
HOSTILE = """
    import os, socket, elf

    class Hostile(elf.Job):
        query = "SELECT COUNT(*) AS n FROM web WINDOWING 1 SECOND GRACE 1 SECOND"
        timer_s = 0.5

        def on_timer(self):
            {deed}
"""


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentFleet]:
    """Agents whose servers log all the time."""
    folder = tmp_path_factory.mktemp("jobs")
    logs = [folder / f"web-{number}.json" for number in range(1, AGENTS + 1)]
    for log in logs:
        log.write_text('{"time": "2026-01-01T00:00:00Z", "product": "apple"}\n')
    specs = [AgentSpec(f"agent-{n}", (StreamFiles("web", (str(log),)),)) for n, log in enumerate(logs, 1)]
    is_over = threading.Event()

    def write() -> None:
        while not is_over.wait(0.02):
            for log in logs:
                with log.open("a") as file:
                    event = {"time": datetime.now(UTC).isoformat(), "product": "apple"}
                    file.write(json.dumps(event) + "\n")

    with AgentFleet(folder / "agents", specs) as agents:
        writer = threading.Thread(target=write)
        writer.start()
        try:
            yield agents
        finally:
            is_over.set()
            writer.join()
        assert agents.faults() == []


def environment(fleet: AgentFleet) -> dict[str, str]:
    return {"ELF_SOCKET": str(fleet.socket("agent-1")), "ELF_CREATOR": str(fleet.creator)}


def elf(fleet: AgentFleet, *words: str) -> elf_process.Finished:
    with mock.patch.dict(os.environ, environment(fleet)):
        return elf_process.elf(*words)


def done(fleet: AgentFleet, *words: str) -> str:
    finished = elf(fleet, *words)
    assert finished.code == 0, finished.err
    return finished.out


def job_file(folder: Path, source: str) -> str:
    folder.mkdir(exist_ok=True)
    path = folder / "job.py"
    path.write_text(textwrap.dedent(source))
    return str(path)


def lines(fleet: AgentFleet, app: str) -> list[str]:
    """What a job has said, by way of an agent that has not been asked for it; a busy fleet is asked again."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        try:
            return [line.text for line in SyncClient(str(fleet.socket("agent-2")), DEADLINE_S).log(app).lines]
        except RefusedError as refused:
            if "did not answer in time" not in str(refused) or time.monotonic() > deadline:
                raise


def until(condition: object, what: str, deadline_s: float = DEADLINE_S) -> None:
    deadline = time.monotonic() + deadline_s
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline, f"in vain: {what}"
        time.sleep(0.1)


def test_a_job_is_submitted_read_changed_and_stopped(fleet: AgentFleet, tmp_path: Path) -> None:
    submitted = done(fleet, "submit", job_file(tmp_path, GOOD), "--output", "json")
    assert json.loads(submitted) | {"app_id": ""} == {"app": "good", "app_id": "", "agents": 3, "expected": 3}
    until(lambda: len(lines(fleet, "good")) > 2, "windows at the master")
    assert all(line.split(" of ")[0] == line.split(" of ")[1] for line in lines(fleet, "good"))
    assert "demo" in done(fleet, "jobs")
    assert " of " in done(fleet, "logs", "good")
    new = job_file(tmp_path, GOOD.replace("{window.events}", "them"))
    assert "version 2" in done(fleet, "update", "good", "--code", new)
    until(lambda: lines(fleet, "good")[-1].endswith("of them"), "windows of the new code")
    again = elf(fleet, "submit", new)
    assert (again.code, "is running already" in again.err) == (2, True)
    stranger = elf(fleet, "stop", "good", "--creator", str(tmp_path))
    assert (stranger.code, "elf creator init" in stranger.err) == (1, True)
    assert done(fleet, "stop", "good") == "good: stopped\n"
    assert lines(fleet, "good")[-1].endswith("of them"), "what it said can still be read"


FOLDED = """
    import json, elf

    class Times(elf.Aggregate):
        examples = [(5,), (7,), (5,)]

        def lift(self, time):
            return [time]

        def combine(self, one, other):
            return sorted(one + other)

    class Folded(elf.Job):
        aggregates = {"TIMES": Times}
        own = "SELECT product, TIMES(EPOCH_MS(time)) AS times, COUNT(*) AS n FROM web GROUP BY product"
        query = own + " WINDOWING <windows>"

        def on_result(self, window):
            said = [window.window_start, window.window_end, window.contributors, window.rows]
            self.log(json.dumps(said))
"""


@pytest.mark.parametrize("windows", seeds("3 SECONDS EVERY 1 SECOND GRACE 1 SECOND", slow=["1 SECOND GRACE 1 SECOND"]))
def test_what_an_aggregate_of_a_job_makes_is_in_the_logs(fleet: AgentFleet, tmp_path: Path, windows: str) -> None:
    done(fleet, "submit", job_file(tmp_path, FOLDED.replace("<windows>", windows)))

    def complete() -> list[tuple[int, int, list[dict[str, object]]]]:
        """The windows so far with all agents: their bounds (epoch ms), and their rows."""
        said = (json.loads(line) for line in lines(fleet, "folded") if line.startswith("["))
        return [(epoch_ms(start), epoch_ms(end), rows) for start, end, agents, rows in said if agents == AGENTS]

    until(lambda: len(complete()) > 6, "windows with all agents")
    shown = complete()[3:]  # the first ones may have begun before the job
    done(fleet, "stop", "folded")
    logs = [log.read_text().splitlines()[1:] for log in sorted(fleet.directory.parent.glob("web-*.json"))]
    logged = sorted(epoch_ms(json.loads(line)["time"]) for log in logs for line in log)
    for start, end, (row,) in shown:
        inside = [time for time in logged if start <= time < end]
        assert (json.loads(str(row["times"])), row["n"]) == (inside, len(inside))
        assert len(inside) > AGENTS


def epoch_ms(time: str) -> int:
    parsed = datetime.fromisoformat(time)
    return int(parsed.timestamp()) * 1000 + parsed.microsecond // 1000


def test_an_aggregate_that_fails_in_earnest_ends_its_job_with_the_traceback(fleet: AgentFleet, tmp_path: Path) -> None:
    deed = "if len(one) > 4: raise ValueError('too many')\n            return sorted(one + other)"
    source = FOLDED.replace("<windows>", "1 SECOND GRACE 1 SECOND").replace("return sorted(one + other)", deed)
    done(fleet, "submit", job_file(tmp_path, source), "--app", "failing")
    until(lambda: any("this ends the job" in line for line in lines(fleet, "failing")), "the end of the job")
    said = "\n".join(lines(fleet, "failing"))
    assert "Traceback (most recent call last)" in said
    assert "ValueError: too many (job.py:11)" in said
    unlawful = source.replace(deed, "return one")
    refused = elf(fleet, "submit", job_file(tmp_path, unlawful))
    assert (refused.code, "TIMES: combine is not commutative: combine([5], [7]) is [5]" in refused.err) == (1, True)


STAGED = """
    import elf

    class Staged(elf.Job):
        stages = {
            "apples": "SELECT COUNT(*) AS n FROM web WHERE product = 'apple' WINDOWING 1 SECOND GRACE 1 SECOND",
            "all": "SELECT COUNT(*) AS n FROM web WINDOWING 1 SECOND GRACE 1 SECOND",
        }
        query = "SELECT SUM(n) AS n FROM app('apples') WINDOWING 2 SECONDS"

        def on_result(self, window):
            n = sum(row["n"] for row in window.rows)
            self.log(f"{window.stage or 'job'} {window.window_start} {window.contributors} {n}")
"""


@pytest.mark.slow  # stages are simulated by default, and other jobs run in processes
def test_a_job_of_several_stages_is_one_thing_to_its_creator(fleet: AgentFleet, tmp_path: Path) -> None:
    def running() -> set[str]:
        found = [json.loads(line) for line in done(fleet, "jobs", "--output", "json").splitlines()]
        return {job["app"] for job in found if "staged" in (job["app"], job["part_of"])}

    wrong = elf(
        fleet, "submit", job_file(tmp_path, STAGED.replace("AS n FROM web WINDOWING", "AS n FRM web WINDOWING"))
    )
    assert "stage all: line 1, column 22: " in wrong.err
    assert (wrong.code, running()) == (2, set())
    late = elf(
        fleet,
        "submit",
        job_file(tmp_path, STAGED.replace("SUM(n) AS n FROM app('apples')", "SUM(n) AS n FROM app('pears')")),
    )
    assert (late.code, "there is no job pears" in late.err) == (2, True)
    until(lambda: running() == set(), "the end of stages without their job")
    submitted = elf(fleet, "submit", job_file(tmp_path, STAGED))
    assert submitted.out == "staged: 1 of 1 agents run it\n"
    assert "its stages are staged.apples, staged.all\n" in submitted.err
    assert running() == {"staged", "staged.apples", "staged.all"}
    again = elf(fleet, "submit", job_file(tmp_path, STAGED))
    assert (again.code, "a job named staged is running already" in again.err) == (2, True)

    def counted(stage: str) -> dict[str, int]:
        """By window, as far as all agents are in it: those that come first may be of those that have joined by then."""
        said = [line.split() for line in lines(fleet, "staged")]
        return {start: int(n) for one, start, agents, n in said if (one, agents) == (stage, str(AGENTS))}

    until(lambda: counted("all").keys() & counted("apples").keys(), "a window of both stages with all agents")
    until(lambda: any(line.startswith("job ") for line in lines(fleet, "staged")), "a window of the job")
    every, apples = counted("all"), counted("apples")
    both = every.keys() & apples.keys()
    assert {start: every[start] for start in both} == {start: apples[start] for start in both} != {}
    refused = elf(fleet, "update", "staged.all", "--code", job_file(tmp_path, STAGED))
    assert "staged.all is a stage of staged: update that job" in refused.err
    changed = STAGED.replace("COUNT(*) AS n FROM web WINDOWING", "COUNT(*) * 100 AS n FROM web WINDOWING")
    changed = changed.replace(
        "stages = {",
        """stages = {
            "few": "SELECT SUM(n) AS n FROM app('all') WINDOWING 1 SECOND",""",
    )
    assert "version 2" in done(fleet, "update", "staged", "--code", job_file(tmp_path, changed))
    assert running() == {"staged", "staged.apples", "staged.all", "staged.few"}
    until(
        lambda: any(line.startswith("few") and line.endswith("00") for line in lines(fleet, "staged")), "the new stage"
    )
    assert "version 3" in done(fleet, "update", "staged", "--code", job_file(tmp_path, STAGED))
    until(lambda: running() == {"staged", "staged.apples", "staged.all"}, "the end of a stage")
    assert done(fleet, "stop", "staged") == "staged: stopped\n"
    done(fleet, "submit", job_file(tmp_path, STAGED))
    assert running() == {"staged", "staged.apples", "staged.all"}
    done(fleet, "stop", "staged")
    until(lambda: running() == set(), "the end of all stages")


DEEDS = {
    "raises": ("raise ValueError('no')", "ValueError: no (job.py:9)"),
    "exits": ("os._exit(7)", "exit code 7"),
    "crashes": ("import ctypes; ctypes.string_at(0)", "signal 11"),
    "memory": ("self.hoard = bytes(10**9)", "256 MiB"),
    "forks": ("os.fork()", "PermissionError"),
    "network": ("socket.create_connection(('127.0.0.1', 1))", "PermissionError"),
    "files": ("open('/etc/passwd').read()", "PermissionError"),
}


def test_hostile_jobs_end_alone(fleet: AgentFleet, tmp_path: Path) -> None:
    """Each is over with its reason, and the good job beside them does not miss a window."""
    client = SyncClient(str(fleet.socket("agent-1")), DEADLINE_S)
    good = "SELECT COUNT(*) AS n FROM web WINDOWING 1 SECOND GRACE 1 SECOND"
    with client.query(good, app="beside") as beside:
        for name, (deed, _) in DEEDS.items():
            elf(fleet, "submit", job_file(tmp_path / name, HOSTILE.format(deed=deed)), "--app", name)
        until(lambda: [job.app for job in client.jobs()] == ["beside"], "all of them are over")
        for name, (_, reason) in DEEDS.items():
            said = [line.text for line in client.log(name).lines]
            assert reason in said[-1], f"{name}: {said}"
        windows = list(islice(dropwhile(lambda window: window.expected < AGENTS, beside), 4))  # once all run it
    panes = [window.pane for window in windows]
    assert panes == list(range(panes[0], panes[-1] + 1000, 1000))
    assert {(window.contributors, window.expected) for window in windows} == {(AGENTS, AGENTS)}
    assert [fleet.is_running(name) for name in fleet.names] == [True] * AGENTS
