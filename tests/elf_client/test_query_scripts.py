"""`elf query` with statements from a file, from standard input, and several of them; what it lists and charts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pyte
import pytest
from asking_process import Terminal, ask, asking
from elf_process import Finished
from scripted_agent import ACCEPTED, Conversation, ScriptedAgent, acknowledged, result_line, window

from agent.control.messages import (
    Accepted,
    Ended,
    GetJobs,
    JobEntry,
    JobPlacement,
    Jobs,
    JobStopped,
    PlaceGroups,
    QueryRequest,
    Refused,
    StopRequest,
    Surveyed,
    SurveyedColumn,
    SurveyRequest,
)
from agent.control.observation.placement_entries import DecisionEntry, MeasuredEntry

FIRST = "SELECT product, SUM(clicks) AS clicks FROM web GROUP BY product"
SECOND = "SELECT COUNT(*) AS n FROM web"


def answer(conversation: Conversation) -> None:
    """Queries have a window and finish; streams have two columns; `nope` is refused, as an agent would."""
    match conversation.request:
        case QueryRequest(text=text) if "nope" in text:
            conversation.send(Refused("usage", f"line {text.count(chr(10)) + 1}, column 8: there is no column nope"))
        case QueryRequest(detach=True):
            conversation.send(ACCEPTED)
        case QueryRequest():
            conversation.send(ACCEPTED, acknowledged(2, 2), window(1000), Ended("finished"))
        case SurveyRequest(stream="web"):
            columns = [SurveyedColumn("clicks", "integer", 2, "7"), SurveyedColumn("product", "any", 1, "")]
            conversation.send(Surveyed("web", columns, True, 2, 5, 1))
        case SurveyRequest(stream=stream):
            conversation.send(Refused("usage", f"this agent has no stream {stream}; its streams: web"))
        case GetJobs():
            conversation.send(Jobs([JobEntry("shop", "00", "web", FIRST, "agent-1", 1, 1, 2, 2, False, None)]))
        case StopRequest(app=app):
            conversation.send(JobStopped(app))


@pytest.fixture
def agent(socket_path: Path) -> Iterator[ScriptedAgent]:
    with ScriptedAgent(socket_path, answer) as running:
        yield running


def piped(text: bytes, *arguments: str, socket: Path) -> Finished:
    return ask("query", *arguments, socket=socket, stdin=text)


def texts(agent: ScriptedAgent) -> list[str]:
    return [request.text.strip() for request in agent.requests if isinstance(request, QueryRequest)]


def test_the_statements_of_a_file_run_one_after_the_other(agent: ScriptedAgent, tmp_path: Path) -> None:
    file = tmp_path / "report.elf"
    file.write_text(f"-- every morning;\n{FIRST};\n\n{SECOND} -- and that;\n;")
    finished = ask("query", "--output", "json", "-f", str(file), socket=agent.path)
    assert (finished.code, finished.out.encode()) == (0, 2 * (result_line(1000) + b"\n"))
    assert texts(agent) == [f"-- every morning;\n{FIRST}", f"{SECOND} -- and that;"]


def test_standard_input_is_a_file_too(agent: ScriptedAgent) -> None:
    finished = piped(f"{FIRST}; {SECOND}".encode(), "--detach", "-f", "-", socket=agent.path)
    assert (finished.code, finished.out) == (0, "shop\nshop\n")
    assert texts(agent) == [FIRST, SECOND]


def test_several_statements_may_be_the_argument(agent: ScriptedAgent) -> None:
    assert ask("query", f"{FIRST}; {SECOND};", socket=agent.path).code == 0
    assert texts(agent) == [FIRST, SECOND]


def test_the_first_that_fails_is_the_last_and_the_file_is_named(agent: ScriptedAgent) -> None:
    finished = piped(f"{FIRST};\nSELECT nope FROM web;\n{SECOND}".encode(), "-f", "-", socket=agent.path)
    assert finished.code == 2
    assert "elf: standard input: line 2, column 8: there is no column nope" in finished.err
    assert texts(agent) == [FIRST, "SELECT nope FROM web"]
    assert "Chess" in finished.out, "what came before it was answered"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "standard input: there is no statement in it"),
        (b" ; -- nothing;\n", "there is no statement in it"),
        (b"SELECT \xff", "byte 8 is not UTF-8"),
        (b"-" * (1 << 20) + b"\n;", "at most 1,048,576 bytes"),
    ],
)
def test_what_holds_no_statements_is_refused_in_one_line(socket_path: Path, data: bytes, words: str) -> None:
    finished = piped(data, "-f", "-", socket=socket_path)
    assert (finished.code, finished.out) == (2, "")
    assert words in finished.err
    assert finished.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "either a QUERY or a file"),
        (("-f", "a.elf", FIRST), "either a QUERY or a file"),
        (("-f", "/nowhere/at/all.elf"), "-f /nowhere/at/all.elf: no such file or directory"),
        (("-f", "/"), "is a directory"),
        (("--app", "x", f"{FIRST}; {SECOND}"), "--app names one job, but there are 2 statements"),
        (("--watch", "--output", "json", FIRST), "not json"),
        (("--watch", FIRST), "--watch needs a terminal"),
        (("--explain", "--output", "plot", FIRST), "--explain"),
        (("SHOW everything",), "line 1, column 6: SHOW knows no everything"),
    ],
)
def test_what_makes_no_sense_is_refused_without_an_agent(arguments: tuple[str, ...], words: str) -> None:
    finished = ask("query", *arguments, socket=Path("nowhere.sock"))
    assert (finished.code, finished.out) == (2, ""), finished.err
    assert words in finished.err


def test_columns_jobs_and_functions_are_listed_in_every_form(agent: ScriptedAgent) -> None:
    described = ask("query", "--output", "json", "DESCRIBE web", socket=agent.path)
    assert [json.loads(line) for line in described.out.splitlines()] == [
        {"column": "clicks", "type": "integer", "agents": 2, "example": "7"},
        {"column": "product", "type": "any", "agents": 1, "example": None},
    ]
    assert "2 of 5 agents have web; 1 have not answered; events may have other columns too" in described.err
    assert (
        ask("query", "--output", "csv", "DESCRIBE web", socket=agent.path).out
        == "column,type,agents,example\nclicks,integer,2,7\nproduct,any,1,\n"
    )
    jobs = ask("query", "show jobs", socket=agent.path)
    assert jobs.out == ask("jobs", socket=agent.path).out
    assert "shop" in jobs.out
    functions = ask("query", "--output", "json", "SHOW FUNCTIONS", socket=agent.path)
    listed = {one["function"]: one for one in map(json.loads, functions.out.splitlines())}
    assert listed["SUM"]["written"] == "SUM(x)"
    assert {"COUNT DISTINCT", "URL_HOST", "COALESCE"} <= listed.keys()
    refused = ask("query", "DESCRIBE shop", socket=agent.path)
    assert (refused.code, refused.err) == (2, "elf: this agent has no stream shop; its streams: web\n")


def test_explain_is_a_statement_too(agent: ScriptedAgent) -> None:
    said = ask("query", f"EXPLAIN {FIRST}", socket=agent.path)
    assert said.out == ask("query", "--explain", FIRST, socket=agent.path).out
    assert agent.requests == []
    wrong = ask("query", "EXPLAIN SELECT", socket=agent.path)
    assert (wrong.code, "line 1, column 15" in wrong.err) == (2, True)


Start = Callable[[Callable[[Conversation], None]], ScriptedAgent]
MANY = [[{"product": f"p{group}", "clicks": 10 * n * group} for group in range(3)] for n in range(1, 6)]


def shows(*windows_: list[dict[str, object]]) -> Callable[[Conversation], None]:
    """A live job with these windows, whose query can be charted."""
    accepted = Accepted("shop", f"{FIRST} WINDOWING 10 SECONDS", ["product", "clicks"], False)

    def script(conversation: Conversation) -> None:
        if isinstance(conversation.request, StopRequest):
            conversation.send(JobStopped("shop"))
        else:
            answers = [window(1000 * number, rows) for number, rows in enumerate(windows_, 1)]
            conversation.send(accepted, acknowledged(2, 2), *answers)
            conversation.wait_for_close()

    return script


def test_a_chart_shows_the_measure_of_each_group_over_the_windows(socket_path: Path) -> None:
    with ScriptedAgent(socket_path, shows(*MANY)):
        finished = ask("query", "--windows", "5", "--output", "plot", FIRST, socket=socket_path)
    assert finished.code == 0
    lines = finished.out.splitlines()
    assert lines[0] == "clicks · 2026-01-02T03:04:01Z … 2026-01-02T03:04:15Z"
    assert [line.split() for line in lines[1:4]] == [
        ["p2", "▂▃▅▆█", "100"],
        ["p1", "▁▂▂▃▄", "50"],
        ["p0", "▁▁▁▁▁", "0"],
    ]
    assert lines[4] == "2 of 2 agents · 3 events"


def test_explain_analyze_waits_for_one_window_and_measures_it(socket_path: Path) -> None:
    text = f"EXPLAIN ANALYZE {FIRST} WINDOWING 10 SECONDS"
    with ScriptedAgent(socket_path, shows(*MANY)):
        finished = ask("query", "--output", "json", text, socket=socket_path)
    assert (finished.code, finished.err) == (0, "")
    explained = json.loads(finished.out)
    measured, not_measured = explained["analyzed"]["measured"], explained["analyzed"]["not_measured"]
    assert (measured["rows shown"], measured["agents in it"], measured["agents expected"]) == (3, 2, 2)
    assert measured["seconds until its first window"] >= measured["seconds until the job was accepted"]
    assert "bytes between agents" in not_measured
    assert explained["agent"][-1].startswith("aggregate per window")


def test_explain_analyze_shows_the_decisions_of_the_job_that_it_runs(socket_path: Path) -> None:
    decisions = [DecisionEntry("each pane", 1.25, None), DecisionEntry("at owners", 1.25, 1.5)]
    placed = JobPlacement("shop", [], [], [], decisions, [MeasuredEntry("rows/s", 3_200.0)])

    def script(conversation: Conversation) -> None:
        if isinstance(conversation.request, PlaceGroups):
            conversation.send(placed)
        else:
            shows(*MANY)(conversation)

    text = f"EXPLAIN ANALYZE {FIRST} WINDOWING 10 SECONDS"
    with ScriptedAgent(socket_path, script):
        finished = ask("query", "--output", "json", text, socket=socket_path)
        table = ask("query", text, socket=socket_path).out
    analyzed = json.loads(finished.out)["analyzed"]
    assert analyzed["decisions"] == ["each pane: 1.25 s, no other way", "at owners: 1.25 s, otherwise 1.5 s"]
    assert analyzed["measured"]["rows/s"] == 3_200
    assert "at owners: 1.25 s, otherwise 1.5 s" in table


def test_watched_windows_take_each_others_place(socket_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    with (
        ScriptedAgent(socket_path, shows(*MANY)),
        asking("query", "--watch", "--windows", "5", FIRST, socket=socket_path, stdout=terminal.end) as process,
    ):
        shown = terminal.until(lambda text: "03:04:15Z" in text)
        assert process.code() == 0
        shown = terminal.until(lambda text: "\x1b[?25h" in text)
    screen = pyte.Screen(80, 24)
    pyte.Stream(screen).feed(shown)
    assert [line.split()[0] for line in screen.display if "2026" in line] == ["2026-01-02T03:04:05Z"]
    assert "\n".join(screen.display).count("p2") == 1
    terminal.close()


def test_a_job_that_is_followed_is_charted_too(socket_path: Path) -> None:
    with ScriptedAgent(socket_path, shows(*MANY)):
        followed = ask("follow", "shop", "--windows", "2", "--output", "plot", socket=socket_path)
    assert followed.out.splitlines()[1].split()[:2] == ["p2", "▄█"]
