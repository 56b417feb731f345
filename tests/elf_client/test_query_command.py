"""`elf query` against a scripted agent: what it prints, when it ends, and that the job ends with it."""

from __future__ import annotations

import os
import queue
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from asking_process import PATIENCE_S, Terminal, ask, asking
from scripted_agent import (
    ACCEPTED,
    COLUMNS,
    ClientGoneError,
    Conversation,
    ScriptedAgent,
    acknowledged,
    result_line,
    stops_and_shows,
    window,
)

from agent.control.messages import Accepted, Ended, JobStopped, QueryRequest, Refused, StopRequest, WindowsLost

QUERY = "SELECT product, SUM(clicks) AS clicks FROM web GROUP BY product WINDOWING 10 SECONDS"


@pytest.fixture
def agent(socket_path: Path) -> Iterator[Callable[..., ScriptedAgent]]:
    """Starts a scripted agent that ends with the test."""
    running: list[ScriptedAgent] = []

    def start(script: Callable[[Conversation], None]) -> ScriptedAgent:
        running.append(ScriptedAgent(socket_path, script).__enter__())
        return running[-1]

    yield start
    for one in running:
        one.__exit__(None, None, None)


Start = Callable[[Callable[[Conversation], None]], ScriptedAgent]


def test_windows_are_printed_as_they_close_byte_for_byte(agent: Start) -> None:
    go_on = threading.Event()
    odd = [{"product": 'Zoë "☃" \\', "clicks": 0.1}, {"product": None, "clicks": 2**70}]

    def script(conversation: Conversation) -> None:
        conversation.send(ACCEPTED, window(1000, odd))
        assert go_on.wait(PATIENCE_S)
        conversation.send(window(2000), Ended("finished"))

    server = agent(script)
    with asking("query", "--output", "json", QUERY, socket=server.path) as process:
        assert process.out.next().encode() == result_line(1000, odd)
        go_on.set()
        assert process.out.next().encode() == result_line(2000)
        assert (process.out.rest(), process.err.rest(), process.code()) == ("", "", 0)
    assert server.requests == [QueryRequest(QUERY)]


def test_options_reach_the_agent(agent: Start) -> None:
    server = agent(stops_and_shows(Ended("finished")))
    assert ask("query", "--once", "--app", "shop", QUERY, "--socket", str(server.path)).code == 0
    assert server.requests == [QueryRequest(QUERY, app="shop", once=True)]
    limits = ("--max-groups", "5", "--beyond-groups", "error")
    assert ask("query", *limits, QUERY, socket=server.path).code == 0
    assert server.requests[1:] == [QueryRequest(QUERY, max_groups=5, beyond_groups="error")]


def test_a_window_without_data_prints_nothing(agent: Start) -> None:
    server = agent(stops_and_shows(acknowledged(2, 2), Ended("finished")))
    for output in ("table", "json", "csv"):
        finished = ask("query", "--output", output, QUERY, socket=server.path)
        assert (finished.code, finished.out) == (0, "")


@pytest.mark.parametrize(("bounded", "code"), [(True, 1), (False, 0)])
def test_an_answer_that_could_not_be_passed_on_in_full_is_an_error(agent: Start, bounded: bool, code: int) -> None:
    """Of a live job it is told with the window, and the next one may be whole."""
    why = "run too large: 2,000,000,000 bytes, the limit is 1,073,741,824"
    accepted = Accepted("shop", ACCEPTED.query, COLUMNS, bounded)

    def script(conversation: Conversation) -> None:
        conversation.send(accepted, window(1000, missing=["web-3"], contributors=1, reasons={"web-3": why}))
        conversation.send(Ended("finished"))

    finished = ask("query", "--once", QUERY, socket=agent(script).path)
    assert finished.code == code
    assert f"web-3: {why}" in " ".join(finished.out.split())
    error = f"elf: shop: this is not the whole answer: web-3: {why}; ask for fewer groups"
    assert (error in finished.err) is bounded


@pytest.mark.parametrize(("bounded", "code"), [(True, 1), (False, 0)])
def test_windows_that_cannot_be_had_any_more_are_reported(agent: Start, bounded: bool, code: int) -> None:
    """An answer that lacks some of its windows is an error."""
    accepted = Accepted("shop", ACCEPTED.query, COLUMNS, bounded)

    def script(conversation: Conversation) -> None:
        conversation.send(accepted, window(1000), WindowsLost(1000, 61_000), window(62_000), Ended("finished"))

    finished = ask("query", "--once", "--output", "json", QUERY, socket=agent(script).path)
    assert finished.code == code
    assert finished.out.encode().splitlines() == [result_line(1000), result_line(62_000)]
    assert "windows after 1970-01-01T00:00:01Z up to 1970-01-01T00:01:01Z were published" in finished.err
    assert ("not all windows are shown" in finished.err) is bounded


def test_only_counts_that_last_are_said_where_nobody_watches(agent: Start) -> None:
    go_on = threading.Event()

    def script(conversation: Conversation) -> None:
        conversation.send(ACCEPTED, *(acknowledged(count, 8) for count in range(9)))
        assert go_on.wait(PATIENCE_S)
        conversation.send(acknowledged(7, 8), acknowledged(8, 8), acknowledged(7, 8, version=2))
        conversation.send(Ended("finished"))

    server = agent(script)
    with asking("query", "--output", "json", QUERY, socket=server.path) as process:
        assert process.err.next() == "shop: 8 of 8 agents run it"
        go_on.set()
        assert process.err.next() == "shop: 7 of 8 agents run version 2"
        assert (process.err.rest(), process.code()) == ("", 0)


def test_a_stream_that_nobody_has_is_told(agent: Start) -> None:
    server = agent(stops_and_shows(acknowledged(0, 0)))
    with asking("query", QUERY, socket=server.path) as process:
        assert process.err.next() == "shop: no agent has its stream so far"


def test_a_terminal_shows_the_count_in_place(agent: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    go_on = threading.Event()

    def script(conversation: Conversation) -> None:
        conversation.send(ACCEPTED, acknowledged(1, 3), acknowledged(3, 3))
        assert go_on.wait(PATIENCE_S)
        conversation.send(window(1000), Ended("finished"))

    server = agent(script)
    terminal = Terminal()
    with asking("query", QUERY, socket=server.path, stderr=terminal.end, stdout=terminal.end) as _:
        shown = terminal.until(lambda text: "3 of 3 agents run it\x1b[K\r\n" in text)
        assert shown.count("\n") == 1
        assert "\rshop: 1 of 3 agents run it\x1b[K\rshop: 3 of 3 agents run it\x1b[K" in shown
        go_on.set()
        terminal.until(lambda text: "2 of 2 agents · 3 events" in text)
    terminal.close()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_stops_the_job_and_says_so(agent: Start, number: signal.Signals) -> None:
    server = agent(stops_and_shows(window(1000)))
    with asking("query", "--output", "json", QUERY, socket=server.path) as process:
        assert process.out.next()
        process.signal(number)
        assert process.code() == 130
        assert process.err.rest() == "shop: interrupted\nshop: stopped\n"
    assert server.requests == [QueryRequest(QUERY), StopRequest("shop")]
    assert server.closed.get(timeout=PATIENCE_S) == QueryRequest(QUERY)


def test_ctrl_c_before_the_agent_has_answered_leaves_no_job(agent: Start) -> None:
    asked: queue.Queue[object] = queue.Queue()

    def script(conversation: Conversation) -> None:
        asked.put(conversation.request)
        conversation.wait_for_close()
        raise ClientGoneError

    server = agent(script)
    with asking("query", QUERY, socket=server.path) as process:
        asked.get(timeout=PATIENCE_S)
        process.signal(signal.SIGINT)
        assert (process.code(), process.out.rest(), process.err.rest()) == (130, "", "elf: interrupted\n")
    assert server.closed.get(timeout=PATIENCE_S) == QueryRequest(QUERY)


def test_ctrl_c_ends_also_where_stopping_gets_no_answer(agent: Start) -> None:
    stopping = threading.Event()

    def script(conversation: Conversation) -> None:
        if isinstance(conversation.request, StopRequest):
            stopping.set()
        else:
            conversation.send(ACCEPTED, window(1000))
        conversation.wait_for_close()
        raise ClientGoneError

    server = agent(script)
    with asking("query", "--output", "json", QUERY, socket=server.path) as process:
        assert process.out.next()
        process.signal(signal.SIGINT)
        assert stopping.wait(PATIENCE_S)
        process.signal(signal.SIGINT)
        assert process.code() == 130


def test_so_many_windows_and_the_job_is_stopped(agent: Start) -> None:
    server = agent(stops_and_shows(*(window(1000 * n) for n in range(1, 6))))
    finished = ask("query", "--windows", "2", "--output", "json", QUERY, socket=server.path)
    assert (finished.code, finished.err) == (0, "")
    assert finished.out.encode() == result_line(1000) + b"\n" + result_line(2000) + b"\n"
    assert server.requests == [QueryRequest(QUERY), StopRequest("shop")]


def test_a_job_that_has_finished_meanwhile_needs_no_stopping(agent: Start) -> None:
    def script(conversation: Conversation) -> None:
        if isinstance(conversation.request, StopRequest):
            conversation.send(Refused("unknown", "no such job"))
        else:
            conversation.send(ACCEPTED, window(1000))

    server = agent(script)
    finished = ask("query", "--windows", "1", "--output", "json", QUERY, socket=server.path)
    assert (finished.code, finished.err) == (0, "")


def test_a_time_limit_ends_with_124_and_stops_the_job(agent: Start) -> None:
    server = agent(stops_and_shows(window(1000)))
    finished = ask("query", "--timeout", "0.3", "--output", "json", QUERY, socket=server.path)
    assert (finished.code, finished.err) == (124, "shop: time is up\nshop: stopped\n")
    assert finished.out.encode() == result_line(1000) + b"\n"
    assert server.requests == [QueryRequest(QUERY), StopRequest("shop")]


def test_a_time_limit_covers_the_wait_for_the_agent(agent: Start) -> None:
    def script(conversation: Conversation) -> None:
        conversation.wait_for_close()
        raise ClientGoneError

    finished = ask("query", "--timeout", "0.3", QUERY, socket=agent(script).path)
    assert finished.code == 124
    assert "did not answer within 0.3 s" in finished.err


def test_a_job_left_running_says_how_to_come_back(agent: Start) -> None:
    server = agent(stops_and_shows(window(1000)))
    finished = ask("query", "--detach", QUERY, "--socket", str(server.path))
    assert (finished.code, finished.out) == (0, "shop\n")
    assert f"elf follow shop --socket {server.path}" in finished.err
    assert f"elf stop shop --socket {server.path}" in finished.err
    assert server.requests == [QueryRequest(QUERY, detach=True)]


def test_a_job_left_running_may_be_watched_first(agent: Start) -> None:
    server = agent(stops_and_shows(window(1000), window(2000)))
    finished = ask("query", "--detach", "--windows", "1", "--output", "json", QUERY, socket=server.path)
    assert (finished.code, finished.out.encode()) == (0, result_line(1000) + b"\n")
    assert "elf follow shop" in finished.err
    with asking("query", "--detach", "--timeout", "60", "--output", "json", QUERY, socket=server.path) as process:
        assert process.out.next()
        process.signal(signal.SIGINT)
        assert process.code() == 130
        assert "shop: runs on: elf follow shop shows it" in process.err.rest()
    assert {type(request) for request in server.requests} == {QueryRequest}


@pytest.mark.parametrize(
    ("reason", "code", "words"), [("finished", 0, ""), ("stopped", 1, "shop was stopped"), ("lost", 1, "shop is lost")]
)
def test_the_end_of_a_job_is_told(agent: Start, reason: str, code: int, words: str) -> None:
    server = agent(stops_and_shows(window(1000), Ended(reason)))  # type: ignore[arg-type]
    finished = ask("query", "--output", "csv", QUERY, socket=server.path)
    assert finished.code == code
    assert words in finished.err
    assert len(finished.err.splitlines()) == (1 if words else 0)
    assert finished.out.splitlines()[1:] == ["2026-01-02T03:04:01Z,2026-01-02T03:04:11Z,Chess,1000"]
    assert server.requests == [QueryRequest(QUERY)]


@pytest.mark.parametrize("command", [("query", QUERY), ("follow", "shop")])
def test_a_job_that_failed_says_why(agent: Start, command: tuple[str, str]) -> None:
    server = agent(stops_and_shows(window(1000), Ended("failed", "the window from noon has more groups than 5")))
    finished = ask(*command, "--output", "json", socket=server.path)
    assert (finished.code, finished.out.encode()) == (1, result_line(1000) + b"\n")
    assert "shop failed: the window from noon has more groups than 5" in finished.err


def test_what_is_in_no_row_is_told_below_the_table(agent: Start) -> None:
    other = {
        "kept": 1_000_000,
        "groups": 34_217,
        "relative_error": 0.003,
        "values": {"clicks": 123456, "\x1b[0m": None},
    }
    server = agent(stops_and_shows(window(1000, other=other), Ended("finished")))
    shown = " ".join(ask("query", QUERY, socket=server.path).out.split())
    assert "1,000,000 groups; about 34,000 more are together in OTHER: clicks 123,456, \\x1b[0m NULL 2 of 2" in shown


def test_a_reader_that_goes_ends_the_job_though_no_window_comes(agent: Start) -> None:
    server = agent(stops_and_shows(window(1000)))
    reader, writer = os.pipe()
    with asking("query", "--output", "json", QUERY, socket=server.path, stdout=writer) as process:
        os.close(writer)
        assert os.read(reader, 10)
        os.close(reader)
        assert (process.code(), process.err.rest()) == (141, "")
    assert server.closed.get(timeout=PATIENCE_S) == QueryRequest(QUERY)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full to write to")
def test_a_full_disk_ends_the_job(agent: Start) -> None:
    server = agent(stops_and_shows(window(1000)))
    with Path("/dev/full").open("wb") as full, asking("query", QUERY, socket=server.path, stdout=full) as process:
        assert process.code() == 1
        assert process.err.rest() == "elf: cannot write the output: no space left on device\n"
    assert server.closed.get(timeout=PATIENCE_S) == QueryRequest(QUERY)


def test_a_terminal_keeps_its_caret_c_apart(agent: Start) -> None:
    server = agent(stops_and_shows(window(1000)))
    terminal = Terminal()
    with asking("query", "--output", "json", QUERY, socket=server.path, stderr=terminal.end) as process:
        assert process.out.next()
        process.signal(signal.SIGINT)
        assert process.code() == 130
        terminal.until(lambda text: text == "\r\nshop: interrupted\r\nshop: stopped\r\n")
    terminal.close()


def test_a_query_that_makes_no_sense_is_refused_with_its_place(agent: Start) -> None:
    text = "line 1, column 8: there is no column zzz\n  SELECT zzz\n         ^^^\ndid you mean \x1b[31mzz?"
    server = agent(lambda conversation: conversation.send(Refused("usage", text)))
    finished = ask("query", "SELECT zzz FROM web", socket=server.path)
    assert (finished.code, finished.out) == (2, "")
    assert finished.err == f"elf: {text}\n".replace("\x1b", "\\x1b")


def test_an_agent_that_cannot_just_now_says_why(agent: Start) -> None:
    server = agent(lambda conversation: conversation.send(Refused("unavailable", "agent-1 has not joined yet")))
    finished = ask("query", QUERY, socket=server.path)
    assert (finished.code, finished.out, finished.err) == (1, "", "elf: agent-1 has not joined yet\n")


def test_an_agent_that_ends_in_the_middle_is_told_with_the_next_step(agent: Start) -> None:
    server = agent(lambda conversation: conversation.send(ACCEPTED, window(1000)))
    finished = ask("query", "--output", "json", QUERY, socket=server.path)
    assert (finished.code, finished.out.encode()) == (1, result_line(1000) + b"\n")
    assert "the agent closed the connection" in finished.err
    assert "elf follow shop goes on" in finished.err
    assert len(finished.err.splitlines()) == 1


@pytest.mark.parametrize(
    "garbage", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\x1b[31m\xff\n", b'{"type":"jobs","jobs":[]}\n']
)
def test_what_is_no_agent_is_told_in_one_line(agent: Start, garbage: bytes) -> None:
    server = agent(lambda conversation: conversation.send_raw(garbage))
    finished = ask("query", QUERY, socket=server.path)
    assert (finished.code, finished.out) == (1, "")
    assert str(server.path) in finished.err
    assert "--socket" in finished.err
    assert finished.err.rstrip("\n").isprintable()


def test_a_line_that_never_ends_is_told(agent: Start) -> None:
    def script(conversation: Conversation) -> None:
        for _ in range(65):
            conversation.send_raw(b"x" * (1 << 20))

    finished = ask("query", QUERY, socket=agent(script).path)
    assert finished.code == 1
    assert "more than 67,108,864 bytes" in finished.err


def test_names_from_agents_are_made_safe(agent: Start) -> None:
    evil = Accepted("a\x1b[31mb\n", "SELECT 1", ["\x1b]0;title\x07"], False)
    row = {"\x1b]0;title\x07": "\x9bred\u202e"}
    shown = window(1000, [row], missing=["\x1b[2Jagent"])

    def script(conversation: Conversation) -> None:
        if isinstance(conversation.request, StopRequest):
            conversation.send(JobStopped("x"))
        else:
            conversation.send(evil, acknowledged(1, 2), shown, Ended("stopped"))

    server = agent(script)
    finished = ask("query", QUERY, socket=server.path)
    detached = ask("query", "--detach", QUERY, socket=server.path)
    for text in (finished.out, finished.err, detached.out, detached.err):
        assert text.replace("\n", "").isprintable()
    assert "\\x9bred\\u202e" in finished.out
    assert "a\\x1b[31mb\\x0a: 1 of 2 agents run it" in finished.err
    assert detached.out == "a\\x1b[31mb\\x0a\n"


@pytest.mark.parametrize(("output", "shown"), [("json", "\\u009bred\\u202e"), ("csv", "\\x9bred\\u202e")])
def test_log_text_never_controls_a_terminal(agent: Start, output: str, shown: str) -> None:
    server = agent(stops_and_shows(window(1000, [{"product": "\x9bred\u202e", "clicks": 1}]), Ended("finished")))
    terminal = Terminal()
    with asking("query", "--output", output, QUERY, socket=server.path, stdout=terminal.end) as process:
        text = terminal.until(lambda text: "red" in text and text.endswith("\n"))
        assert process.code() == 0
    terminal.close()
    assert shown in text
    assert text.replace("\r\n", "").isprintable()
    piped = ask("query", "--output", output, QUERY, socket=server.path).out
    assert "\x9bred\u202e" in piped


def test_bytes_that_are_no_text_are_refused(agent: Start) -> None:
    server = agent(stops_and_shows())
    for command in (("query", b"SELECT '\xff'"), ("query", "--app", b"\xff", QUERY), ("stop", b"\xff")):
        finished = ask(*command, socket=server.path)
        assert (finished.code, finished.out) == (2, "")
        assert "UTF-8" in finished.err
    assert server.requests == []


def test_requests_that_make_no_sense_are_refused_without_an_agent() -> None:
    for options, words in {
        ("--windows", "0"): "--windows",
        ("--timeout", "0"): "--timeout",
        ("--timeout", "soon"): "--timeout",
        ("--app", ""): "--app",
        ("--app", "x" * 256): "--app",
        ("--output", "xml"): "xml",
        ("--explain", "--output", "csv"): "--explain",
    }.items():
        finished = ask("query", *options, QUERY, socket=Path("nowhere.sock"))
        assert (finished.code, finished.out) == (2, ""), options
        assert words in finished.err
