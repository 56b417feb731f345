"""`elf jobs`, `elf status`, `elf stop`, and what every command says when nobody answers."""

from __future__ import annotations

import grp
import json
import os
import pwd
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
from asking_process import ask
from scripted_agent import ACCEPTED, Conversation, ScriptedAgent, window

from agent.control.messages import (
    ASKED_WINDOWS_MAX,
    AskAnswer,
    AskRequest,
    Ended,
    GetJobs,
    IdentityStatus,
    JobEntry,
    Jobs,
    JobStatus,
    JobStopped,
    JobUpdated,
    LogExcerpt,
    LogLine,
    PublishedWindow,
    RevocationListStatus,
    Status,
    StopRequest,
    StreamStatus,
    UpdateJob,
)
from elf.client import AgentUnreachableError, connect_sync

COMMANDS = [
    ("query", "SELECT 1 FROM web"),
    ("follow", "shop"),
    ("ask", "shop"),
    ("jobs",),
    ("stop", "shop"),
    ("update", "shop", "--query", "SELECT 1 FROM web"),
    ("status",),
]
LIVE = JobEntry(
    "shop", "ab" * 16, "web", "SELECT COUNT(*) FROM web WINDOWING 1 MINUTE", "agent-3", 2, 1, 7, 8, False,
    "2026-01-02T03:04:00Z",
)  # fmt: skip
ONCE = JobEntry("once-1", "cd" * 16, "*", "SELECT COUNT(*) FROM *", "agent-1", 1, 1, 8, 8, True, None)
STATUS = Status(
    name="agent-5", fleet="shop", node_id="ef" * 16, address="127.0.0.1:7705", active=True, uptime_s=5400.0,
    memory_bytes=96 << 20, leaf_set=["agent-1", "agent-2"], peers=7,
    streams=[StreamStatus("web", ["/var/log/nginx/*.log"], 2, 123456, 3, 9_876_543, 1234.56, True)],
    jobs=[JobStatus("shop", "ab" * 16, ["worker", "combiner"], "agent-3", ["agent-6", "agent-7"], 1, 2,
                    "2026-01-02T03:04:00Z", rows_here=12_345, rows_as_states=12_000)],
    counters={"frames_in": 12345, "refused": 0},
    identity=IdentityStatus(
        "1f" * 20, "2027-01-02T03:04:05Z",
        [RevocationListStatus("0a" * 32, 1_760_000_000, 2), RevocationListStatus("0b" * 32, 0, 0)],
    ),
)  # fmt: skip


@contextmanager
def answering(
    path: Path, answer: Jobs | Status | JobStopped | JobUpdated | AskAnswer | LogExcerpt
) -> Iterator[ScriptedAgent]:
    with ScriptedAgent(path, lambda conversation: conversation.send(answer)) as server:
        yield server


def test_jobs_are_a_table_for_people(socket_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    with answering(socket_path, Jobs([LIVE, ONCE])) as server:
        finished = ask("jobs", socket=socket_path)
    assert (finished.code, finished.err) == (0, "")
    title, _, live, once = (line.split() for line in finished.out.splitlines() if line.strip())
    assert title == ["APP", "STREAM", "KIND", "AGENTS", "UP", "TO", "MASTER", "OWNER", "QUERY"]
    assert live[:4] + live[6:8] == ["shop", "web", "live", "7", "2026-01-02T03:04:00Z", "agent-3"]
    assert once[:3] == ["once-1", "*", "once"]
    assert server.requests == [GetJobs()]


def test_stages_come_after_their_job(socket_path: Path) -> None:
    jobs = [
        msgspec.structs.replace(LIVE, app=app, creator=creator, part_of=part_of)
        for app, creator, part_of in [
            ("shop.likes", "john", "shop"), ("top", "maria", ""), ("shop", "maria", ""), ("shop", "john", ""),
            ("shop.likes", "maria", "shop"),
        ]
    ]  # fmt: skip
    with answering(socket_path, Jobs(jobs)):
        finished = ask("jobs", socket=socket_path)
    listed = [line.split() for line in finished.out.splitlines() if line.strip()][2:]
    assert [(words[0], "john" in words) for words in listed if words[0].startswith(("shop", "top"))] == [
        ("shop", True), ("shop.likes", True), ("top", False), ("shop", False), ("shop.likes", False),
    ]  # fmt: skip


def test_jobs_are_lines_for_programs(socket_path: Path) -> None:
    with answering(socket_path, Jobs([LIVE, ONCE])):
        finished = ask("jobs", "--output", "json", socket=socket_path)
    assert [json.loads(line) for line in finished.out.splitlines()] == [
        msgspec.to_builtins(LIVE),
        msgspec.to_builtins(ONCE),
    ]


@pytest.mark.parametrize("output", ["table", "json"])
def test_a_fleet_without_jobs_prints_none(socket_path: Path, output: str) -> None:
    with answering(socket_path, Jobs([])):
        finished = ask("jobs", "--output", output, socket=socket_path)
    assert (finished.code, finished.out) == (0, "")
    assert ("no jobs" in finished.err) == (output == "table")


def test_status_shows_members_streams_jobs_and_counters(socket_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    with answering(socket_path, STATUS):
        finished = ask("status", socket=socket_path)
    assert finished.code == 0
    lines = [" ".join(line.split()) for line in finished.out.splitlines()]
    for expected in (
        "agent-5 of fleet shop at 127.0.0.1:7705: active",
        "up 1.5 h, 96 MiB",
        "leaf set 2: agent-1, agent-2",
        "identity certificate 1f1f1f1f1f1f1f1f, valid until 2027-01-02T03:04:05Z",
        "authority 0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a: list 1760000000, 2 revoked",
        "authority 0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b: nothing revoked",
        "peers 7 known",
        "web /var/log/nginx/*.log 2 123,456 1,234.6 3 9,876,543 yes",
        "shop worker, combiner agent-3 agent-6, agent-7 2026-01-02T03:04:00Z 1 2",
        "READER ROWS READ HERE OF THESE AS STATES ROWS READ FROM ELSEWHERE",
        "shop 12,345 12,000 0",
        "frames_in 12,345",
    ):
        assert expected in lines
    assert "refused" not in finished.out


def test_status_is_one_object_for_programs(socket_path: Path) -> None:
    with answering(socket_path, STATUS):
        finished = ask("status", "--output", "json", socket=socket_path)
    assert json.loads(finished.out) == msgspec.to_builtins(STATUS)


def test_what_agents_call_themselves_is_made_safe(socket_path: Path) -> None:
    evil = msgspec.structs.replace(STATUS, name="\x1b[2J", leaf_set=["\u202egent"], counters={"\x9b": 1})
    with answering(socket_path, evil):
        shown = ask("status", socket=socket_path).out
    job = msgspec.structs.replace(LIVE, app="[red]a\x1b[2J", query="SELECT '\x07'")
    socket_path.unlink()
    with answering(socket_path, Jobs([job])):
        shown += ask("jobs", socket=socket_path).out
    assert shown.replace("\n", "").isprintable()
    assert "[red]" in shown


def test_stop_says_what_it_has_stopped(socket_path: Path) -> None:
    with answering(socket_path, JobStopped("shop")) as server:
        assert ask("stop", "shop", socket=socket_path).out == "shop: stopped\n"
        said = ask("stop", "shop", "--output", "json", "--socket", str(socket_path)).out
    assert json.loads(said) == {"type": "stopped", "app": "shop"}
    assert server.requests == [StopRequest("shop")] * 2


def test_what_the_code_of_jobs_logs_is_made_safe(socket_path: Path) -> None:
    evil = "\x1b[2J\u202egent\n\x9b"
    with answering(socket_path, LogExcerpt(evil, [LogLine("2026-01-02T03:04:00Z", evil, evil)], 3)):
        shown = ask("logs", "shop", "--socket", str(socket_path))
    assert shown.code == 0
    assert not {"\x1b", "\u202e", "\x9b"} & set(shown.out + shown.err)
    assert shown.out.count("\n") == 1
    assert shown.out.count("\\x1b[2J") == 2


def test_update_says_from_when_on_and_who_is_behind(socket_path: Path) -> None:
    updated = JobUpdated("shop", "SELECT COUNT(*) FROM web", 2, "2026-01-02T03:05:00Z", 7, 8, ["web-\x1b5"])
    with answering(socket_path, updated) as server:
        finished = ask("update", "shop", "--query", "SELECT 1", socket=socket_path)
        lines = ask("update", "shop", "--query", "SELECT 2", "--reset", "--output", "json", socket=socket_path)
    said = "shop: version 2 in windows from 2026-01-02T03:05:00Z on, 7 of 8 agents run it\n"
    assert (finished.code, finished.out) == (0, said)
    assert finished.err == "shop: still to come: web-\\x1b5; without them until they have caught up\n"
    told = json.loads(lines.out)
    assert (told["type"], told["version"], told["laggards"], lines.err) == ("updated", 2, ["web-\x1b5"], "")
    assert server.requests == [UpdateJob("shop", "SELECT 1"), UpdateJob("shop", "SELECT 2", reset=True)]


def test_an_update_whose_results_may_come_too_late_says_so(socket_path: Path) -> None:
    late = JobUpdated("shop", "SELECT 1", 2, "2026-01-02T03:05:00Z", 8, 8, [], warning="180 ms is not met\x1b: tail")
    with answering(socket_path, late):
        finished = ask("update", "shop", "--query", "SELECT 1", socket=socket_path)
        told = json.loads(ask("update", "shop", "--query", "SELECT 1", "--output", "json", socket=socket_path).out)
    assert (finished.code, finished.err) == (0, "shop: 180 ms is not met\\x1b: tail\n")
    assert told["warning"] == late.warning


@pytest.mark.parametrize("output", ["csv", "table", "json"])
def test_windows_of_an_updated_job_have_its_new_columns(socket_path: Path, output: str) -> None:
    first, other = window(1000), json.loads(bytes(window(2000).result))
    other |= {"rows": [{"shop": "north", "n": 3}], "version": 2}
    second = PublishedWindow(2000, msgspec.Raw(json.dumps(other).encode()))

    def script(conversation: Conversation) -> None:
        conversation.send(ACCEPTED, first, second, Ended("finished"))

    with ScriptedAgent(socket_path, script):
        finished = ask("query", "--output", output, "SELECT 1 FROM web", socket=socket_path)
    assert (finished.code, finished.err) == (0, "")
    if output == "csv":
        assert finished.out.splitlines() == [
            "window_start,window_end,product,clicks",
            "2026-01-02T03:04:01Z,2026-01-02T03:04:11Z,Chess,1000",
            "window_start,window_end,shop,n",
            "2026-01-02T03:04:02Z,2026-01-02T03:04:12Z,north,3",
        ]
    for word in ("Chess", "clicks", "north", "shop"):
        assert word in finished.out


def test_ask_prints_the_last_windows_and_ends(socket_path: Path) -> None:
    windows = [window(1000), window(2000)]
    with answering(socket_path, AskAnswer("shop", ACCEPTED.query, ACCEPTED.columns, windows)) as server:
        lines = ask("ask", "shop", "--windows", "2", "--output", "json", socket=socket_path)
        csv = ask("ask", "shop", "--output", "csv", socket=socket_path)
        table = ask("ask", "shop", socket=socket_path)
    assert (lines.code, lines.err) == (0, "")
    assert lines.out.encode().splitlines() == [bytes(one.result) for one in windows]
    assert csv.out.splitlines() == [
        "window_start,window_end,product,clicks",
        "2026-01-02T03:04:01Z,2026-01-02T03:04:11Z,Chess,1000",
        "2026-01-02T03:04:02Z,2026-01-02T03:04:12Z,Chess,2000",
    ]
    assert "2 of 2 agents" in table.out
    assert server.requests == [AskRequest("shop", 2), AskRequest("shop"), AskRequest("shop")]


def test_ask_answers_a_query_over_the_last_windows(socket_path: Path) -> None:
    windows = [window(1000), window(2000)]
    text = "SELECT product, SUM(clicks) AS clicks, MAX(window_end) AS until FROM windows GROUP BY product"
    with answering(socket_path, AskAnswer("shop", ACCEPTED.query, ACCEPTED.columns, windows)):
        finished = ask("ask", "shop", "--windows", "2", "--output", "csv", text, socket=socket_path)
        limit = " WINDOWING 1 SECOND WITHIN 500 MILLISECONDS"
        late = ask("ask", "shop", "--windows", "2", "--output", "csv", text + limit, socket=socket_path)
        wrong = ask("ask", "shop", "SELECT product FROM shop", socket=socket_path)
    assert (finished.code, finished.err) == (0, "")
    assert (late.code, late.err.startswith("WITHIN is ignored: ")) == (0, True)
    assert finished.out.splitlines()[-1].split(",")[-3:] == ["Chess", "3000", "2026-01-02T03:04:12Z"]
    assert wrong.code == 2


def test_ask_says_when_no_window_is_out_yet(socket_path: Path) -> None:
    with answering(socket_path, AskAnswer("shop", ACCEPTED.query, ACCEPTED.columns, [])):
        finished = ask("ask", "shop", "--output", "json", socket=socket_path)
    assert (finished.code, finished.out) == (0, "")
    assert finished.err == "shop: no window is published yet: elf follow waits for the next one\n"


@pytest.mark.parametrize("windows", ["0", str(ASKED_WINDOWS_MAX + 1), "many"])
def test_ask_refuses_windows_that_no_job_keeps(socket_path: Path, windows: str) -> None:
    finished = ask("ask", "shop", "--windows", windows, socket=socket_path)
    assert (finished.code, finished.out) == (2, "")
    assert windows in finished.err


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_a_socket_that_is_not_there_is_told_with_the_next_step(command: tuple[str, ...], socket_path: Path) -> None:
    finished = ask(*command, socket=socket_path)
    assert (finished.code, finished.out) == (1, "")
    assert finished.err.startswith(f"elf: {socket_path}: there is no such socket")
    assert "elf agent --config" in finished.err
    assert "--socket" in finished.err
    assert len(finished.err.splitlines()) == 1


def refusal(path: Path | str) -> str:
    with pytest.raises(AgentUnreachableError) as caught, connect_sync(path):
        pass
    assert str(caught.value).isprintable()
    return str(caught.value)


def test_every_way_not_to_reach_an_agent_has_its_own_words(socket_path: Path) -> None:
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(socket_path))
    left.close()
    assert "nobody listens" in refusal(socket_path)
    assert "elf agent --config" in refusal(socket_path)
    plain = socket_path.with_name("plain")
    plain.touch()
    assert "no socket" in refusal(plain)
    assert "no such socket" in refusal(plain / "control.sock")
    assert "too long" in refusal("/tmp/" + "x" * 200)
    assert "\\x1b" in refusal("gone\x1b[31m")


@contextmanager
def as_nobody() -> Iterator[None]:
    """Without root's rights, where the tests have them; names of users are looked up by modules read before."""
    assert grp.getgrgid(0)
    assert pwd.getpwuid(0)
    if os.geteuid():
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_socket_that_is_not_permitted_says_who_may(socket_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(socket_path))
        listener.listen()
        socket_path.chmod(0)
        socket_path.parent.chmod(0o755)
        with as_nobody():
            text = refusal(socket_path)
    assert "not permitted" in text
    assert socket_path.owner() in text


def test_an_agent_whose_queue_is_full_is_waited_for(socket_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(socket_path))
        listener.listen(0)
        with socket.socket(socket.AF_UNIX) as first:
            first.connect(str(socket_path))
            with (
                pytest.raises(AgentUnreachableError, match="takes no connections"),
                connect_sync(socket_path, timeout_s=0.2),
            ):
                pass


@pytest.mark.parametrize("output", ["csv", "table"])
def test_windows_look_as_those_of_elf_local(tmp_path: Path, socket_path: Path, output: str) -> None:
    """The same writers serve results computed here and results received."""
    events = [
        {"ts": 1767323045, "name": "\x1b[31mred", "n": 2**62}, {"ts": 1767323046, "name": "a,b", "n": 2**62},
        {"ts": 1767323047, "name": None, "n": 0.1}, {"ts": 1767323058, "name": "☃", "n": 1e300},
    ]  # fmt: skip
    log = tmp_path / "events.json"
    log.write_text("".join(json.dumps(event) + "\n" for event in events) + "no event\n")
    query = "SELECT name, COUNT(*) AS events, SUM(n) AS s, MAX(n) AS m FROM logs GROUP BY name WINDOWING 10 SECONDS"
    expected = ask("local", "--output", output, query, str(log))
    lines = ask("local", "--output", "json", query, str(log)).out.splitlines()
    accepted = msgspec.structs.replace(ACCEPTED, columns=["name", "events", "s", "m"])

    def script(conversation: Conversation) -> None:
        windows = [PublishedWindow(number, msgspec.Raw(line.encode())) for number, line in enumerate(lines)]
        conversation.send(accepted, *windows, Ended("finished"))

    with ScriptedAgent(socket_path, script):
        finished = ask("query", "--output", output, query, socket=socket_path)
    assert (finished.code, finished.out) == (0, expected.out)
    assert len(lines) == 2


def test_explain_needs_no_agent_and_no_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    query = (
        "select product as p, sum(clicks) as n from web where store == `video` and not ts in (1, 2) group by p "
        "sort by n desc limit 3 windowing 90 seconds"
    )
    finished = ask("query", "--explain", query, socket=Path("nowhere.sock"))
    assert (finished.code, finished.err) == (0, "")
    for words in (
        "WINDOWING 90 SECONDS", "product (any), clicks (number), store (string), ts (number)", "live: until",
        "keep events WHERE ts NOT IN (1, 2) AND store = 'video'", "aggregate per window and product: SUM(clicks)",
        "merge", "SELECT product AS p, SUM(clicks) AS n", "ORDER BY SUM(clicks) DESC", "LIMIT 3",
    ):  # fmt: skip
        assert words in finished.out
    explained = json.loads(ask("query", "--explain", "--once", "--output", "json", query).out)
    assert explained["keys"] == ["product"]
    assert explained["aggregates"] == ["SUM(clicks)"]
    assert (explained["stream"], explained["runs"], explained["window"]) == ("web", "once", "90 s")
    every = json.loads(ask("query", "--explain", "--output", "json", "SELECT *").out)
    assert (every["stream"], every["master"][0], every["columns"]) == (None, "SELECT *", {})


def test_explain_shows_where_other_jobs_are_read() -> None:
    query = "SELECT t.n, b.rank FROM app('top') AS t LEFT JOIN app('b') ON t.n = b.n WINDOWING 1 MINUTE"
    explained = json.loads(ask("query", "--explain", "--output", "json", query).out)
    assert (explained["query"].startswith("SELECT t.n"), explained["stream"]) == (True, "app('top')")
    assert explained["columns"] == {"n": "any", "b.rank": "any", "b.n": "any"}
    assert (
        explained["agent"][0]
        == "only beside this job's master, which app('top') sends each window once it is out: read n"
    )
    assert explained["agent"][1].startswith("ask app('b') for its latest result")
    unqualified = ask("query", "--explain", "SELECT n FROM app('top') JOIN app('b') ON top.n = b.n")
    assert (unqualified.code, "n may be a column of app('top') or of app('b')" in unqualified.err) == (2, True)


def test_explain_refuses_what_no_agent_would_take() -> None:
    finished = ask("query", "--explain", "SELECT a, COUNT(*) FROM web")
    assert (finished.code, finished.out) == (2, "")
    assert finished.err.startswith("elf: line 1, column 8: a is neither grouped nor aggregated\n")


@pytest.mark.parametrize("command", ["query", "follow", "ask", "jobs", "stop", "update", "status"])
def test_help_shows_examples(command: str) -> None:
    text = ask(command, "--help").out
    assert f"elf {command}" in text
    assert "Examples:" in text


def test_asking_loads_no_engine() -> None:
    """Commands that only ask must start at once: Polars alone takes longer than an answer."""
    code = (
        "import sys; import elf.commands.query, elf.commands.follow, elf.commands.jobs, elf.commands.status;"
        "import elf; elf.connect_sync; print(sorted({'polars', 'trio', 'lark', 'rich', 'numpy'} & set(sys.modules)))"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=True)
    assert loaded.stdout == "[]\n"
