"""`elf local` as a person meets it: what it prints, what it refuses, and that no good line is ever lost."""

from __future__ import annotations

import gzip
import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from shlex import quote
from typing import Any

import pytest
import zstandard
from click.testing import CliRunner
from elf_process import elf, local

import cbt
from agent.parsing import native_status
from elf.commands.local import local as local_command
from elf.errors import UsageError

EVENTS = [
    {"ts": "2026-01-02T03:04:05Z", "product": "Angry Birds", "store": "video_games", "clicks": 2,
     "user": {"at": "Ohio"}},
    {"ts": "2026-01-02T03:04:15Z", "product": "Chess", "store": "board_games", "clicks": 5, "user": {"at": "Utah"}},
    {"ts": "2026-01-02T03:04:25Z", "product": "Angry Birds", "store": "video_games", "clicks": 3, "user": None},
    {"ts": "2026-01-02T03:04:45Z", "product": "Tetris", "store": "video_games", "clicks": 7},
]  # fmt: skip
COMBINED = (
    '203.0.113.9 - - [02/Jan/2026:03:04:05 +0000] "GET /a?x=1 HTTP/1.1" 200 512 "-" "curl/8"\n'
    '203.0.113.9 - eve [02/Jan/2026:03:04:06 +0000] "GET /b HTTP/1.1" 503 - "-" "curl/8"\n'
)
TOTAL = "SELECT COUNT(*) AS n, SUM(clicks) AS clicks FROM logs"


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., str]:
    def write_lines(*lines: bytes | dict[str, Any], name: str = "events.json", end: bytes = b"\n") -> str:
        encoded = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
        path = tmp_path / name
        path.write_bytes(b"\n".join(encoded) + end)
        return str(path)

    return write_lines


@pytest.fixture
def events(write: Callable[..., str]) -> str:
    return write(*EVENTS)


def test_figure_4_as_printed(events: str) -> None:
    figure_4 = "SELECT product,SUM(clicks) FROM * WHERE store == `video_games` GROUP BY product SORT BY SUM(clicks) DESC LIMIT 10 WINDOWING 30 SECONDS;"  # noqa: E501
    first, second = local(figure_4, events).results
    assert first["window_start"] == "2026-01-02T03:04:00Z"
    assert first["window_end"] == "2026-01-02T03:04:30Z"
    assert first["rows"] == [{"product": "Angry Birds", "SUM(clicks)": 5}]
    assert second["rows"] == [{"product": "Tetris", "SUM(clicks)": 7}]
    assert (first["contributors"], first["expected"], first["missing"], first["events"]) == (1, 1, [], 3)


@pytest.mark.parametrize("agents", ["1", "3", "8"])
def test_any_number_of_agents_gives_the_same_rows(events: str, agents: str) -> None:
    finished = local("SELECT user.at AS place, COUNT(*) AS n FROM logs GROUP BY user.at", "--agents", agents, events)
    assert finished.rows == [{"place": "Ohio", "n": 1}, {"place": "Utah", "n": 1}, {"place": None, "n": 2}]
    assert finished.results[0]["contributors"] == int(agents)


def test_reads_standard_input_gzip_and_zstandard(events: str, tmp_path: Path) -> None:
    data = Path(events).read_bytes()
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(data))
    (tmp_path / "b.json.zst").write_bytes(zstandard.compress(data))
    expected = [{"n": 4, "clicks": 17}]
    assert local(TOTAL, "-", stdin=data).rows == expected
    assert local(TOTAL, str(tmp_path / "a.json.gz")).rows == expected
    assert local(TOTAL, str(tmp_path / "b.json.zst")).rows == expected
    assert local(TOTAL, events, str(tmp_path / "a.json.gz")).rows == [{"n": 8, "clicks": 34}]


def test_formats_are_recognised(write: Callable[..., str]) -> None:
    combined = write(COMBINED.encode(), name="access.log", end=b"")
    query = "SELECT path, query_string AS q, status, body_bytes_sent AS size, remote_user AS who FROM logs"
    assert local(query, combined).rows == [
        {"path": "/a", "q": "x=1", "status": 200, "size": 512, "who": None},
        {"path": "/b", "q": None, "status": 503, "size": None, "who": "eve"},
    ]
    table = write(b"time,item,price", b'2010-12-01 08:26:00,"a,b",2.5', b"2010-12-01 08:27:00,c,3", name="x.csv")
    assert local("SELECT item, price * 2 AS twice FROM logs WINDOWING 1 DAY", table).results[0]["rows"] == [
        {"item": "a,b", "twice": 5}, {"item": "c", "twice": 6},
    ]  # fmt: skip
    tabs = write(b"time\thost\tbytes", b"804571201\tx\t10", b"804571202\tx\t20\t\t", name="x.tsv")
    assert local("SELECT host, SUM(bytes) AS b FROM logs GROUP BY host", tabs).rows == [{"host": "x", "b": 30}]


def test_named_sources_and_from(events: str, write: Callable[..., str]) -> None:
    access = write(COMBINED.encode(), name="access.log", end=b"")
    named = ["--source", f"shop={events}", "--source", f"web={access}"]
    assert local("SELECT COUNT(*) AS n FROM web", *named).rows == [{"n": 2}]
    assert local("SELECT COUNT(*) AS n FROM *", *named).rows == [{"n": 6}]
    assert local("SELECT COUNT(*) AS n", events).rows == [{"n": 4}]
    local("SELECT COUNT(*) FROM nowhere", *named).refuses(2, "nowhere", "shop", "web", "line 1")
    local("SELECT COUNT(*)", *named).refuses(2, "shop", "web")


def test_since_and_until_bound_the_events(events: str) -> None:
    bounds = ["--since", "2026-01-02T03:04:15Z", "--until", "2026-01-02T03:04:45Z"]
    assert local(TOTAL, *bounds, events).rows == [{"n": 2, "clicks": 8}]
    local(TOTAL, "--since", "soon", events).refuses(2, "--since", "'soon'")


def test_rows_without_aggregates_are_limited_and_the_rest_counted(events: str) -> None:
    result = local("SELECT product FROM logs WHERE clicks > 2 LIMIT 2", events).results[0]
    assert result["rows"] == [{"product": "Chess"}, {"product": "Angry Birds"}]
    assert (result["events"], result["dropped"]) == (4, 1)


def test_it_says_whether_native_code_is_used_where_it_is_asked(events: str) -> None:
    quiet, verbose = elf("local", TOTAL, events), elf("local", "-v", TOTAL, events)
    assert (quiet.out, quiet.err) == (verbose.out, "")
    assert verbose.err == f"elf local: lines are parsed {native_status()}; trees are kept {cbt.tree_status()}\n"


def test_csv_and_table_output(events: str) -> None:
    query = "SELECT store, COUNT(*) AS n FROM logs GROUP BY store WINDOWING 30 SECONDS"
    finished = elf("local", "--output", "csv", query, events)
    assert finished.out.splitlines() == [
        "window_start,window_end,store,n",
        "2026-01-02T03:04:00Z,2026-01-02T03:04:30Z,board_games,1",
        "2026-01-02T03:04:00Z,2026-01-02T03:04:30Z,video_games,2",
        "2026-01-02T03:04:30Z,2026-01-02T03:05:00Z,video_games,1",
    ]
    table = elf("local", query, events).out
    assert "video_games" in table
    assert "1 of 1 agents · 3 events" in table


def test_log_bytes_never_reach_a_terminal_as_control_sequences(write: Callable[..., str]) -> None:
    path = write({"ts": 1700000000, "name": "\x1b[31mred\x9b\u202e"})
    out = elf("local", "SELECT name FROM logs", path).out
    assert "\\x1b[31mred\\x9b\\u202e" in out
    assert not {"\x1b", "\x9b", "\u202e"} & set(out)


BAD_LINES = {
    "not json": b"garbage",
    "nul bytes": b"\x00\x00\x00",
    "truncated": b'{"ts": 1767323045, "clicks": 1',
    "no time": b'{"clicks": 1}',
    "unusable time": b'{"ts": "yesterday", "clicks": 1}',
    "not an object": b"[1, 2]",
    "another format": COMBINED.splitlines()[0].encode(),
    "ten megabytes": b'{"ts": 1767323045, "clicks": 1, "pad": "' + b"x" * 10_000_000 + b'"}',
}


@pytest.mark.parametrize("line", BAD_LINES.values(), ids=BAD_LINES.keys())
def test_a_bad_line_is_counted_and_its_neighbours_are_kept(write: Callable[..., str], line: bytes) -> None:
    (result,) = local(TOTAL, write(EVENTS[0], line, EVENTS[1])).results
    assert result["rows"] == [{"n": 2, "clicks": 7}]
    assert (result["malformed"], result["events"]) == (1, 2)


def test_good_events_in_odd_lines_are_kept(write: Callable[..., str]) -> None:
    two = json.dumps(EVENTS[0]).encode() + b" " + json.dumps(EVENTS[1]).encode()
    invalid_utf8 = b'{"ts": 1767323045, "clicks": 1, "product": "caf\xe9"}'
    nul_before = b"\x00\x00" + json.dumps(EVENTS[2]).encode()
    path = write(two, invalid_utf8, nul_before, b"", EVENTS[3], end=b"")
    (result,) = local(TOTAL, path).results
    assert (result["rows"], result["malformed"]) == ([{"n": 5, "clicks": 18}], 0)


def test_values_that_do_not_fit_are_null_and_counted(write: Callable[..., str]) -> None:
    wrong = [{"ts": 1767323045, "clicks": value} for value in ("12", True, [1], {"a": 1}, None, 2.5)]
    (result,) = local(TOTAL, write(*wrong, EVENTS[0])).results
    assert (result["rows"], result["coerced"]) == ([{"n": 7, "clicks": 4.5}], 4)


def test_a_column_no_event_has_is_null_with_a_warning(events: str) -> None:
    finished = local("SELECT clickz, COUNT(*) AS n FROM logs GROUP BY clickz", events)
    assert finished.rows == [{"clickz": None, "n": 4}]
    assert "clickz" in finished.err


def test_an_empty_file_has_no_events(write: Callable[..., str]) -> None:
    path = write(end=b"")
    assert local("SELECT COUNT(*) AS n FROM logs", path).rows == [{"n": 0}]
    finished = local("SELECT COUNT(*) AS n FROM logs WINDOWING 1 MINUTE", path)
    assert (finished.results, "no events" in finished.err) == ([], True)


def test_input_that_cannot_be_read_is_refused_in_one_line(events: str, tmp_path: Path) -> None:
    binary = tmp_path / "blob"
    binary.write_bytes(bytes(range(256)) * 50)
    prose = tmp_path / "prose"
    prose.write_text("To be or not to be\nthat is the question\n")
    for path, words in {
        str(tmp_path / "gone.log"): ["gone.log", "no such file"],
        str(tmp_path): [str(tmp_path), "directory"],
        str(binary): ["blob", "binary"],
        str(prose): ["prose", "cannot tell the format", "combined"],
    }.items():
        finished = local(TOTAL, events, path)
        finished.refuses(2, *words)
        assert len(finished.err.splitlines()) == 1
    local(TOTAL).refuses(2, "no input")
    local(TOTAL, "-", "-").refuses(2, "standard input")
    local(TOTAL, "--source", "web", events).refuses(2, "NAME=PATH")
    elf("local", "--source-format", "xml", TOTAL, events).refuses(2, "xml", "json")
    elf("local", "--agents", "0", TOTAL, events).refuses(2, "--agents")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_an_unreadable_file_is_refused(events: str) -> None:
    Path(events).chmod(0)
    local(TOTAL, events).refuses(2, "events.json", "permission denied")


def test_a_compressed_file_that_breaks_off_counts_as_far_as_it_goes(tmp_path: Path) -> None:
    lines = "".join(json.dumps({"ts": 1767323045 + n, "clicks": n}) + "\n" for n in range(20_000))
    path = tmp_path / "cut.json.gz"
    path.write_bytes(gzip.compress(lines.encode())[:-2000])
    finished = local("SELECT COUNT(*) AS n FROM logs", str(path))
    assert finished.code == 1
    assert 0 < json.loads(finished.out)["rows"][0]["n"] < 20_000
    assert "cut.json.gz" in finished.err


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("SELECT COUNT(*) FROM logs WINDOWING 0 SECONDS", ["line 1", "^"]),
        ("SELECT ts FROM logs LIMIT -1", ["line 1", "^"]),
        ("SELECT COUNT(* FROM logs", ["line 1", "^"]),
        ("SELECT " + "(" * 10_000 + "1" + ")" * 10_000 + " FROM logs", ["nested"]),
        ("", ["SELECT"]),
        ("SELECT ts FROM app('top')", ["line 1, column 16: elf local knows no other jobs", "elf query"]),
        ("SELECT logs.ts FROM logs JOIN app('b') ON logs.ts = b.ts", ["line 1, column 31: elf local knows", "^"]),
    ],
    ids=["no window", "negative limit", "open parenthesis", "nested", "empty", "from", "join"],
)
def test_queries_that_make_no_sense_are_refused(events: str, query: str, words: list[str]) -> None:
    local(query, events).refuses(2, *words)


def test_a_query_of_a_megabyte_is_refused(events: str) -> None:
    """In process, since the kernel takes no argument that long."""
    query = "SELECT ts FROM logs WHERE " + "x = 1 OR " * 120_000 + "TRUE"
    outcome = CliRunner().invoke(local_command, [query, events])
    assert isinstance(outcome.exception, UsageError)
    assert "long" in str(outcome.exception)


def test_an_unknown_column_of_a_fixed_format_is_an_error(write: Callable[..., str]) -> None:
    path = write(COMBINED.encode(), name="access.log", end=b"")
    local("SELECT statu, COUNT(*) FROM logs GROUP BY statu", path).refuses(
        2, "statu", "status", "line 1, column 8", "^"
    )


def test_a_closed_pipe_is_no_accident(write: Callable[..., str]) -> None:
    path = write(*({"ts": 1767323045 + n, "n": n} for n in range(800)))  # far more than a pipe holds
    query = "SELECT COUNT(*) FROM logs GROUP BY n WINDOWING 1 SECOND"
    command = f"{quote(sys.executable)} -m elf local --output json '{query}' {quote(path)} | head -n 1"
    finished = subprocess.run(command, shell=True, capture_output=True, timeout=300, check=False)
    assert json.loads(finished.stdout)["events"] == 1
    assert finished.stderr == b""


def test_a_terminal_gets_a_progress_bar(events: str) -> None:
    terminal, other_end = pty.openpty()
    command = [sys.executable, "-m", "elf", "local", "--output", "json", TOTAL, events]
    finished = subprocess.run(command, stdout=subprocess.PIPE, stderr=other_end, timeout=300, check=True)
    os.close(other_end)
    shown = os.read(terminal, 65536).decode()
    os.close(terminal)
    assert "reading" in shown
    assert json.loads(finished.stdout)["rows"] == [{"n": 4, "clicks": 17}]


@pytest.mark.parametrize("command", [[], ["local"], ["demo"]])
def test_help_shows_an_example(command: list[str]) -> None:
    text = elf(*command, "--help").out
    assert "elf local" in text or "elf demo" in text
    assert "Example" in text or "Try" in text


def test_the_largest_queries_reach_every_agent(events: str) -> None:
    """A query within its limits must fit the limits of the messages that carry its plan."""
    query = "SELECT COUNT(*) AS n FROM logs WHERE clicks IN (" + ", ".join(map(str, range(3_900))) + ")"
    assert local(query, "--agents", "3", events).rows == [{"n": 4}]
    chain = "SELECT COUNT(*) AS n FROM logs WHERE " + " OR ".join(f"clicks = {n}" for n in range(3_000))
    assert local(chain, "--agents", "3", events).rows == [{"n": 4}]


def test_bounds_that_leave_no_time_between_them_are_refused(events: str) -> None:
    finished = local(TOTAL, "--since", "2026-01-02", "--until", "2026-01-01", events)
    finished.refuses(2, "--since", "--until")


@pytest.mark.parametrize("windows", ["30 SECONDS", "30 SECONDS EMIT CHANGES"])
def test_within_is_ignored_and_that_is_said(events: str, windows: str) -> None:
    query = f"SELECT product, COUNT(*) AS n FROM logs GROUP BY product WINDOWING {windows}"
    finished, plain = local(f"{query} WITHIN 500 MILLISECONDS ELSE PARTIAL", events), local(query, events)
    assert finished.results == plain.results
    assert [line for line in finished.err.splitlines() if "WITHIN" in line] == [
        "elf local: WITHIN is ignored: it is for live jobs, and here windows come when all input is read"
    ]
    assert "WITHIN" not in plain.err


def test_a_within_that_cannot_be_is_refused_as_always(events: str) -> None:
    refused = elf("local", f"{TOTAL} WITHIN 500 MILLISECONDS", events)
    assert refused.code == 2
    assert "WITHIN needs WINDOWING" in refused.err


def test_how_soon_results_come_is_no_question_for_files(events: str) -> None:
    refused = elf("local", f"EXPLAIN LATENCY {TOTAL} WINDOWING 30 SECONDS", events)
    assert (refused.code, refused.out) == (2, "")
    assert "EXPLAIN LATENCY is for live jobs" in refused.err
