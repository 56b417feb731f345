"""`elf latency`: all jobs and one job as tables and lines, what it asks for, and its words where there is nothing."""

from __future__ import annotations

import json
import os
from pathlib import Path
from unittest import mock

import click
import msgspec
import pyte
import pytest
import trio
from asking_process import Terminal, ask, asking
from click.shell_completion import ShellComplete
from scripted_agent import Conversation, ScriptedAgent

import elf
from agent.control.messages import (
    GetJobs,
    GetLatency,
    GetStatus,
    JobEntry,
    JobLatency,
    Jobs,
    Refused,
    why_no_request,
)
from agent.control.observation.latency_entries import DurationEntry, PlanEntry, SlowAgentEntry
from elf.cli import cli
from elf.client import AsyncClient, UnknownJobError
from query.latency import AGENT_PHASES, Phase

SQL = "SELECT product, COUNT(*) AS n\n  FROM web GROUP BY product WINDOWING 1 SECOND WITHIN 2 SECONDS"


def durations(what: str, mean_ms: float, count: int = 200) -> DurationEntry:
    return DurationEntry(what, count, mean_ms, mean_ms * 0.9, mean_ms * 2)


PHASES = [durations(phase.label, 10.0 * (phase + 1)) for phase in Phase if phase is not Phase.DELIVER]
FOUND = JobLatency(
    "shop", "web-3", SQL, 2_000, 99.0, 200, 195, 5, durations("total", 661.0), durations("skew", 1.0),
    [*PHASES, durations("deliver", 7.5, 2)], [durations(phase.label, 5.0) for phase in AGENT_PHASES],
    [SlowAgentEntry("web-2", 40, 250.5, 120), SlowAgentEntry("web-9", 0, 0.0, 30)],
    700.0, {phase.label: 10.0 * (phase + 1) if phase is not Phase.DELIVER else 0.0 for phase in Phase},
    events_s=1_200.0, contributors=8, path_statistics=b"sums", part_statistics=b"sums", slowest_phase="commit",
)  # fmt: skip
NOTHING = DurationEntry("", 0, 0.0, 0.0, 0.0)
FRESH = JobLatency("fresh", "web-1", "SELECT 1", 0, None, 0, 0, 0, NOTHING, NOTHING, [NOTHING], [NOTHING], [], 0.0, {})


def entry(app: str, *, bounded: bool = False, creator: str = "") -> JobEntry:
    return JobEntry(app, "ab" * 16, "web", SQL, "web-3", 1, 1, 8, 8, bounded, None, creator)


def answering(path: Path, *jobs: JobEntry, **found: JobLatency | Refused) -> ScriptedAgent:
    """An agent that knows these jobs, and what to say of each."""

    def script(conversation: Conversation) -> None:
        if isinstance(conversation.request, GetLatency):
            conversation.send(found[conversation.request.app])
        else:
            assert isinstance(conversation.request, GetJobs)
            conversation.send(Jobs(list(jobs)))

    return ScriptedAgent(path, script)


def table(text: str) -> list[str]:
    """The lines of tables, with a space between two cells."""
    return [" ".join(line.split()) for line in text.splitlines() if line.strip() and "─" not in line]


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")


def test_one_job_phase_by_phase(socket_path: Path) -> None:
    with answering(socket_path, shop=FOUND) as server:
        finished = ask("latency", "shop", socket=socket_path)
    assert (finished.code, finished.err) == (0, "")
    assert server.requests == [GetLatency("shop")]
    assert table(finished.out) == [
        f"shop: {' '.join(SQL.split())}",
        "within 2 s at 99 % · met 97.5 % (195 of 200), 5 missed · slowest phase: commit · master web-3",
        "PHASE MEAN MS P50 MS P99 MS SHARE % LAST MS ALL MEAN ALL P99",
        "tail 10.0 9.0 20.0 1.5 10.0 5.0 10.0",
        "read wait 20.0 18.0 40.0 3.0 20.0 5.0 10.0",
        "parse 30.0 27.0 60.0 4.5 30.0 5.0 10.0",
        "insert 40.0 36.0 80.0 6.1 40.0 5.0 10.0",
        "close 50.0 45.0 100.0 7.6 50.0 5.0 10.0",
        "seal wait 60.0 54.0 120.0 9.1 60.0 5.0 10.0",
        "seal 70.0 63.0 140.0 10.6 70.0 5.0 10.0",
        "uplink 80.0 72.0 160.0 12.1 80.0 - -",
        "combine 90.0 81.0 180.0 13.6 90.0 - -",
        "finish 100.0 90.0 200.0 15.1 100.0 - -",
        "commit 110.0 99.0 220.0 16.6 110.0 - -",
        "deliver 7.5 6.8 15.0 - - - -",
        "sum 660.0 - - - 660.0 - -",
        "latency 661.0 594.9 1,322 - 700.0 - -",
        "skew 1.0 0.9 2.0 - 40.0 - -",
        "SLOWEST AGENTS MEAN MS PARTS LAST",
        "web-2 250.5 40 120",
        "web-9 - 0 30",
    ]


def test_a_job_without_a_limit_and_with_durations_that_cannot_be(socket_path: Path) -> None:
    found = msgspec.structs.replace(FOUND, within_ms=0, percent=None, met=0, missed=0, clipped=3, agents=[])
    with answering(socket_path, shop=found):
        lines = table(ask("latency", "shop", socket=socket_path).out)
    assert lines[1] == "no limit is stated (WITHIN) · 200 results · slowest phase: commit · master web-3"
    assert lines[2] == "3 durations could not be, and count as the nearest that can"
    assert lines[-1].startswith("skew")


def test_a_plan_is_shown_against_what_is_measured_with_what_has_come_of_it(socket_path: Path) -> None:
    plan = PlanEntry(
        50, 4, 1, 500.0, 700.0, {"tail": 4.0, "seal": 61.0}, 710.0, 210.0,
        "uplink of web-2 takes 210 ms more than planned; replanned: GRACE 50 ms, panes cut in 4", 500,
    )  # fmt: skip
    fresh = msgspec.structs.replace(plan, mean_ms=0.0, phases={}, remark="")
    found = {"shop": msgspec.structs.replace(FOUND, plan=plan), "fresh": msgspec.structs.replace(FOUND, plan=fresh)}
    with answering(socket_path, **found):
        unplanned = table(ask("latency", "fresh", socket=socket_path).out)
        lines = table(ask("latency", "shop", socket=socket_path).out)
        told = json.loads(ask("latency", "shop", "--output", "json", socket=socket_path).out)
    shown = " ".join(lines)
    assert "planned 500 ms on average, 700 at the limit's share · the last results 710 · drift +210 ms" in shown
    assert "GRACE 50 ms, panes cut in 4, looks each 500 ms " in shown
    assert plan.remark in shown
    assert "seal 70.0 63.0 140.0 10.6 70.0 5.0 10.0 61.0" in lines
    assert told["plan"]["drift_ms"] == 210.0
    assert "not planned yet: too few results" in " ".join(unplanned)


def test_a_job_that_has_no_result_yet_says_what_to_look_at(socket_path: Path) -> None:
    with answering(socket_path, fresh=FRESH):
        finished = ask("latency", "fresh", socket=socket_path)
    assert finished.code == 0
    assert table(finished.out) == [
        "fresh: no result has been out since web-1 leads it: elf tree fresh shows for whom it waits"
    ]


def test_all_live_jobs_those_first_that_miss_most(socket_path: Path) -> None:
    late = msgspec.structs.replace(FOUND, app="late", within_ms=120_000, percent=None, met=1, missed=3)
    slow = msgspec.structs.replace(
        FOUND, app="slow", within_ms=0, met=0, missed=0, total=durations("total", 9_000.0), slowest_phase="seal"
    )
    jobs = [entry("fresh"), entry("slow"), entry("shop"), entry("once", bounded=True), entry("late", creator="ann")]
    with answering(socket_path, *jobs, fresh=FRESH, slow=slow, shop=FOUND, **{"late@ann": late}) as server:
        finished = ask("latency", socket=socket_path)
    assert (finished.code, finished.err) == (0, "")
    assert table(finished.out) == [
        "APP WITHIN RESULTS MET % MEAN MS P50 MS P99 MS SLOWEST PHASE SLOWEST AGENT",
        "late 2 min on average 200 25.0 661.0 594.9 1,322.0 commit web-2",
        "shop 2 s at 99 % 200 97.5 661.0 594.9 1,322.0 commit web-2",
        "slow - 200 - 9,000.0 8,100.0 18,000.0 seal web-2",
        "fresh - 0 - - - - - -",
    ]
    asked = [request.app for request in server.requests if isinstance(request, GetLatency)]
    assert asked == ["fresh", "slow", "shop", "late@ann"], "of jobs that end nothing is measured"


def test_a_job_that_has_ended_is_left_out_and_one_whose_master_is_silent_is_named(socket_path: Path) -> None:
    jobs = [entry("gone"), entry("mute"), entry("shop"), entry("hidden")]
    refused = {"gone": Refused("unknown", "no job"), "mute": Refused("unavailable", "the fleet did not answer"),
               "hidden": Refused("forbidden", "you may not")}  # fmt: skip
    with answering(socket_path, *jobs, shop=FOUND, **refused):
        shown = ask("latency", socket=socket_path)
        lines = ask("latency", "--output", "json", socket=socket_path)
    assert (shown.code, lines.code) == (0, 0)
    for said in (shown.out, lines.err):
        assert "left out: 2, the first is mute: the fleet did not answer" in said
        assert "gone" not in said
    assert json.loads(lines.out)["app"] == "shop"


def test_a_fleet_without_live_jobs(socket_path: Path) -> None:
    with answering(socket_path, entry("once", bounded=True)):
        finished = ask("latency", socket=socket_path)
    assert (finished.code, finished.err) == (0, "")
    assert "runs no live jobs" in finished.out
    assert "elf query starts one" in finished.out


@pytest.mark.parametrize(("words", "looks"), [((), 1), (("--rounds", "2", "--every", "0.5"), 2), (("--watch",), 1)])
def test_programs_get_one_object_a_job_and_look(socket_path: Path, words: tuple[str, ...], looks: int) -> None:
    if "--watch" in words:
        words = (*words, "--rounds", "1")
    with answering(socket_path, entry("shop"), shop=FOUND):
        every = ask("latency", "--output", "json", *words, socket=socket_path)
        one = ask("latency", "shop", "--output", "json", *words, socket=socket_path)
    assert (every.code, one.code) == (0, 0)
    expected = msgspec.to_builtins(FOUND)
    for left_out in ("path_statistics", "part_statistics", "total_statistics", "group_points"):
        del expected[left_out]
    assert [json.loads(line) for line in one.out.splitlines()] == [expected] * looks
    assert every.out == one.out


def test_without_a_terminal_watching_is_one_look(socket_path: Path) -> None:
    with answering(socket_path, shop=FOUND) as server:
        finished = ask("latency", "shop", "--watch", socket=socket_path)
    assert (finished.code, len(server.requests)) == (0, 1)
    assert table(finished.out)[-1] == "web-9 - 0 30"


def test_on_a_terminal_each_look_takes_the_place_of_the_one_before(
    socket_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    with (
        answering(socket_path, *map(entry, ("shop", *"abcdefgh")), **dict.fromkeys(("shop", *"abcdefgh"), FOUND)),
        asking("latency", "--rounds", "3", "--every", "0.5", socket=socket_path, stdout=terminal.end) as process,
    ):
        shown = terminal.until(lambda text: text.count("SLOWEST PHASE") >= 3)  # it may be drawn once more at the end
        assert process.code() == 0
        shown = terminal.until(lambda text: "\x1b[?25h" in text)
    terminal.close()
    screen = pyte.Screen(160, 24)
    pyte.Stream(screen).feed(shown)
    assert "\n".join(screen.display).count("SLOWEST PHASE") == 1
    assert sum("99 %" in line for line in screen.display) == 9


@pytest.mark.parametrize(
    ("refused", "code"),
    [
        (Refused("unknown", "there is no job shop in this fleet: elf jobs lists those there are"), 1),
        (Refused("forbidden", "alice may not see the latency of shop"), 1),
        (Refused("unavailable", "the fleet did not answer in time"), 1),
        (Refused("usage", "more than one job is named shop"), 2),
    ],
)
def test_a_refusal_is_one_line_with_the_exit_code_of_its_kind(socket_path: Path, refused: Refused, code: int) -> None:
    with answering(socket_path, shop=refused):
        finished = ask("latency", "shop", socket=socket_path)
    assert (finished.code, finished.out, finished.err) == (code, "", f"elf: {refused.message}\n")


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--every", "0.1"), "0.1 is not in the range"),
        (("--rounds", "0"), "0 is not in the range"),
        (("--output", "csv"), "'csv' is not one of"),
        (("shop", "other"), "unexpected extra argument"),
    ],
)
def test_what_makes_no_sense_is_not_asked_for(socket_path: Path, words: tuple[str, ...], why: str) -> None:
    finished = ask("latency", *words, socket=socket_path)
    assert (finished.code, finished.out) == (2, "")
    assert why in finished.err
    assert "elf latency --help" in finished.err


def test_an_agent_of_the_release_before_says_that_it_does_not_know_the_request(socket_path: Path) -> None:
    line = msgspec.json.encode(GetLatency("shop"))
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.json.decode(line, type=GetStatus)
    with answering(socket_path, shop=Refused("usage", why_no_request(line, caught.value))):
        finished = ask("latency", "shop", socket=socket_path)
    assert (finished.code, finished.out) == (2, "")
    assert "an agent of another release than this elf may not know all of it" in finished.err


def test_what_agents_call_themselves_is_made_safe(socket_path: Path) -> None:
    evil = "\x1b[2J\u202egent\n\x9b"
    found = msgspec.structs.replace(
        FOUND, app=evil, master=evil, query=evil, phases=[durations(evil, 1.0)], last={evil: 1.0},
        agents=[SlowAgentEntry(evil, 1, 1.0, 1)], slowest_phase=evil,
    )  # fmt: skip
    fresh = msgspec.structs.replace(FRESH, master=evil)
    with answering(socket_path, entry("shop"), entry("mute"), shop=found, fresh=fresh, mute=Refused("usage", evil)):
        for words in (("shop",), (), ("fresh",)):
            finished = ask("latency", *words, socket=socket_path)
            assert finished.code == 0
            assert not {"\x1b", "\u202e", "\x9b"} & set(finished.out + finished.err)


def test_both_clients_in_python_ask_alike(socket_path: Path) -> None:
    async def asked() -> JobLatency:
        async with elf.connect(socket_path) as client:
            assert isinstance(client, AsyncClient)
            return await client.latency("shop")

    with answering(socket_path, shop=FOUND, nope=Refused("unknown", "no job nope")) as server:
        assert trio.run(asked) == FOUND
        with elf.connect_sync(socket_path) as client:
            assert client.latency("shop") == FOUND
            with pytest.raises(UnknownJobError, match="no job nope"):
                client.latency("nope")
    assert server.requests == [GetLatency("shop"), GetLatency("shop"), GetLatency("nope")]


def test_a_shell_completes_names_of_jobs(socket_path: Path) -> None:
    with (
        answering(socket_path, entry("shop"), entry("shop-2"), entry("other"), entry("\x1b[2J")),
        mock.patch.dict(os.environ, {"ELF_SOCKET": str(socket_path)}),
    ):
        complete = ShellComplete(cli, {}, "elf", "_ELF_COMPLETE")
        assert [one.value for one in complete.get_completions(["latency"], "sh")] == ["shop", "shop-2"]
        assert "latency" in [one.value for one in complete.get_completions([], "l")]


def test_its_help_explains_each_phase() -> None:
    with click.Context(cli) as context:
        command = cli.get_command(context, "latency")
    assert command is not None
    assert command.epilog is not None
    explained = [line.split("  ")[1].strip() for line in command.epilog.splitlines() if line.startswith("  ")]
    assert set(explained) >= {phase.label for phase in Phase}
