"""`--explain-latency` and EXPLAIN LATENCY before anything runs: what agents have sampled, doubted, or cannot tell."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from asking_process import ask
from measured_work import OF_WORK
from scripted_agent import Conversation, ScriptedAgent

from agent.control.messages import (
    DryRuns,
    GetJobs,
    GetLatency,
    JobEntry,
    JobLatency,
    Jobs,
    Refused,
    RunDry,
    Surveyed,
    SurveyRequest,
)
from agent.control.observation.latency_entries import AgentSample
from agent.control.observation.latency_view import described_latency
from agent.runtime.messages.views.latency import LatencyView
from overlay import Id
from query.latency import AGENT_PHASES, Phase, PhaseStatistics, phases_to_bytes

SQL = "SELECT path, COUNT(*) AS n FROM web GROUP BY path WINDOWING 1 SECOND WITHIN 2 SECONDS"
LATE = PhaseStatistics(100, buckets={0: 98, 250: 2}).to_bytes()
JOB = """
import elf

class Shop(elf.Job):
    app = "shop"
    query = "{query}"
"""


def sample(agent: str, rate: float = 100.0, doubt: str = "") -> AgentSample:
    costs = {int(phase): (0.001, 1e-6, 1e-6, 0.0, 0.2, 20.0) for phase in OF_WORK}
    return AgentSample(agent, 5_000, rate, doubt, (2.0, 0.5, 10.0), 20.0, LATE, costs, 0.5)


def durations(seconds: float) -> PhaseStatistics:
    """What takes as long, 400 times."""
    each = PhaseStatistics()
    for _ in range(400):
        each.add(seconds)
    return each


def measured(seal_s: float, app: str) -> JobLatency:
    """What a job has measured: 20 ms in each other phase, but for reading, and a group for each event."""
    lengths = dict.fromkeys(Phase, 0.02) | {Phase.PARSE: 0.005, Phase.INSERT: 0.005, Phase.SEAL: seal_s}
    phases = {phase: durations(seconds) for phase, seconds in lengths.items()}
    parts, paths = phases_to_bytes({phase: phases[phase] for phase in AGENT_PHASES}), phases_to_bytes(phases)
    nothing = PhaseStatistics().to_bytes()
    view = LatencyView(
        Id(7), app, "web-1", SQL, 0, None, 400, 0, 0, nothing, nothing, paths, 0, [], [], parts, [],
        events_s=800_000.0, agents=8,
    )  # fmt: skip
    return msgspec.structs.replace(described_latency(view), group_points=[(10_000, 10_000), (100_000, 100_000)])


def answering(
    path: Path, dry: DryRuns | Refused, *jobs: JobEntry, seal_s: float = 0.02, app: str = "shop"
) -> ScriptedAgent:
    """An agent with these jobs, which have measured the same, and these dry runs."""

    def script(conversation: Conversation) -> None:
        match conversation.request:
            case RunDry():
                conversation.send(dry)
            case GetLatency():
                conversation.send(measured(seal_s, app))
            case GetJobs():
                conversation.send(Jobs(list(jobs)))
            case SurveyRequest():
                conversation.send(Surveyed("web", [], True, 3, 5, 1))

    return ScriptedAgent(path, script)


SHOP = JobEntry("shop", "ab" * 16, "web", SQL, "web-1", 1, 1, 8, 8, False, None)
FOUND = DryRuns(4, 5, 1, [sample(f"web-{number}") for number in range(4)], {"web-9": "no right"})


@pytest.mark.parametrize("words", [("query", "--explain-latency", SQL), ("query", f"EXPLAIN LATENCY {SQL}")])
def test_a_query_that_nobody_measures_is_run_dry(socket_path: Path, words: tuple[str, ...]) -> None:
    with answering(socket_path, FOUND) as server:
        table = ask(*words, socket=socket_path)
        data = ask(*words, "--output", "json", socket=socket_path)
    assert (table.code, data.code) == (0, 0), table.err + data.err
    assert [one.text.strip() for one in server.requests if isinstance(one, RunDry)] == [SQL] * 2
    explained = json.loads(data.out)
    known = {one["phase"]: one["evidence"] for one in explained["phases"]}
    assert {known[phase.label] for phase in OF_WORK} == {"sampled"}
    assert known["uplink"] == "assumed"
    assert (explained["agents"], explained["events_s"], explained["sampled"], explained["sampled_lines"]) == (
        4,
        400.0,
        4,
        20_000,
    )
    assert explained["late_share"] == pytest.approx(0.02)
    assert "4, 400 events a second in all; sampled in the logs of 4" in table.out
    assert "2 % come after GRACE" in table.out


def test_what_a_job_has_measured_is_believed_and_logs_tell_of_late_lines_alone(socket_path: Path) -> None:
    with answering(socket_path, FOUND, SHOP):
        explained = json.loads(ask("query", "--explain-latency", SQL, "--output", "json", socket=socket_path).out)
    assert {one["evidence"] for one in explained["phases"]} == {"measured"}
    assert (explained["agents"], explained["events_s"], explained["known_from"]) == (8, 800_000.0, "shop")
    assert explained["late_share"] == pytest.approx(0.02)
    assert explained["knobs"][0]["now"] == "500 ms, 2 % come later"


def test_words_of_agents_leave_the_terminal_alone(socket_path: Path) -> None:
    dry = DryRuns(4, 4, 0, [sample("web-1", 0.0, "\x1b[2J")])
    with answering(socket_path, dry, SHOP, app="\x1b[31mshop"):
        table = ask("query", "--explain-latency", SQL, socket=socket_path)
    assert "\x1b[2J" not in table.out
    assert "\x1b[31m" not in table.out
    assert "shop" in table.out


def test_what_is_in_reach_with_panes_that_are_cut_is_said_to_be(socket_path: Path) -> None:
    text = SQL.replace("WITHIN 2 SECONDS", "GRACE 100 MILLISECONDS WITHIN 1 SECOND")
    with answering(socket_path, FOUND, SHOP, seal_s=0.8):
        explained = json.loads(ask("query", "--explain-latency", text, "--output", "json", socket=socket_path).out)
    assert explained["quantile_ms"] > 1_000
    cuts = next(one for one in explained["knobs"] if one["knob"] == "cuts")
    assert cuts["now"] == "1"
    assert int(cuts["best"]) > 1
    assert explained["verdict"] == "can be met, with room for half as many events again"


@pytest.mark.parametrize("doubt", ["standstill", "clock"])
def test_what_is_doubted_is_said_and_assumed(socket_path: Path, doubt: str) -> None:
    dry = DryRuns(4, 4, 0, [sample("web-1", 0.0, doubt), sample("web-2", 0.0, doubt)], unanswered=1, clipped=7)
    with answering(socket_path, dry):
        table = ask("query", "--explain-latency", SQL, socket=socket_path)
        data = json.loads(ask("query", "--explain-latency", SQL, "--output", "json", socket=socket_path).out)
    assert (data["evidence"], data["events_s"], data["doubts"], data["clipped"]) == (
        "assumed",
        0.0,
        {doubt: 2, "no answer": 1},
        7,
    )
    assert {one["evidence"] for one in data["phases"] if one["phase"] not in ("close", "read wait", "seal wait")} == {
        "assumed"
    }
    assert data["quantile_ms"] > data["mean_ms"]
    assert data["verdict"] == "much of it is assumed, not measured"
    said = " ".join(table.out.split())
    assert f"no rate is known; {doubt} at 2; no answer at 1; 7 numbers cannot be" in said


def test_an_agent_of_the_release_before_assumes_all(socket_path: Path) -> None:
    with answering(socket_path, Refused("usage", "this is no request: run_dry")):
        finished = ask("query", "--explain-latency", SQL, "--output", "json", socket=socket_path)
    assert finished.code == 0, finished.err
    explained = json.loads(finished.out)
    assert (explained["agents"], explained["sampled"], explained["late_share"]) == (3, 0, None)
    assert explained["evidence"] == "assumed"


def test_a_job_in_python_is_explained_without_its_code(socket_path: Path, tmp_path: Path) -> None:
    plain, mapped = tmp_path / "plain.py", tmp_path / "mapped.py"
    plain.write_text(JOB.format(query=SQL))
    mapped.write_text(
        JOB.format(query=SQL) + "\n    reads = {'path': 'string'}\n\n    def map(self, event):\n        yield event\n"
    )
    with answering(socket_path, FOUND) as server:
        first = ask("submit", "--explain-latency", str(plain), "--output", "json", socket=socket_path)
        second = ask("submit", "--explain-latency", str(mapped), "--output", "json", socket=socket_path)
    assert (first.code, second.code) == (0, 0), first.err + second.err
    assert [json.loads(one.out)["sampled"] for one in (first, second)] == [4, 0]
    assert sum(isinstance(one, RunDry) for one in server.requests) == 1, "code is not run dry"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--explain-latency", "--once", SQL), "--explain-latency is of live queries, without --once"),
        (("--explain-latency", "--explain", SQL), "either --explain or --explain-latency"),
        (("--explain-latency", "--output", "csv", SQL), "prints a table or, with --output json, an object"),
        (("--explain-latency", "SELECT COUNT(*) FROM web"), "EXPLAIN LATENCY is of live queries: add windows"),
        (("--explain-latency", "SELECT COUNT(*) FROM app('x') WINDOWING 1 SECOND"), "no live job reads"),
    ],
)
def test_what_cannot_be_explained_is_refused_in_a_line(socket_path: Path, words: tuple[str, ...], why: str) -> None:
    with answering(socket_path, FOUND):
        finished = ask("query", *words, socket=socket_path)
    assert (finished.code, finished.out) == (2, "")
    assert why in finished.err
    assert finished.err.count("\n") == 1


def test_no_agent_has_the_stream(socket_path: Path) -> None:
    with answering(socket_path, DryRuns(0, 5, 0)):
        finished = ask("query", "--explain-latency", SQL, socket=socket_path)
    assert (finished.code, finished.out) == (2, "")
    assert "no agent has the stream web" in finished.err
