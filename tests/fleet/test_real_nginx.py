"""Real nginx servers, an agent beside each: every request is counted once, also while the logs are rotated."""

from __future__ import annotations

import gzip
import json
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from elf_process import elf
from nginx_server import PROGRAM, Client, Kind, Load, Nginx, Seen, kind, wait_until
from watching import Watch, submit

from elf.demo.agents.agents import AgentFleet, AgentSpec, StreamFiles, free_port

pytestmark = [pytest.mark.live, pytest.mark.skipif(PROGRAM is None, reason="nginx is not installed")]
ROTATIONS = 5
REQUESTS_BETWEEN = 400
WINDOWS_TIMEOUT_S = 240.0
KEPT_OF_A_LONG_TARGET = 8192 - len("GET ")
"""nginx logs as much of a request line that is too long as its buffer held."""
TIME_ZONES = ["UTC", "XYZ-5:30", "ABC+8"]
LIVE = {
    "access": "SELECT status, path AS seen, http_user_agent AS agent, COUNT(*) AS n FROM access "
    "GROUP BY status, path, http_user_agent WINDOWING 1 SECOND GRACE 2 SECONDS",
    "events": "SELECT status, target AS seen, agent, COUNT(*) AS n FROM events "
    "GROUP BY status, target, agent WINDOWING 1 SECOND GRACE 2 SECONDS",
}
MARK = kind(b"/mark", 200, ("/mark", "test/1"), ("/mark", "test/1"))
KINDS = [
    kind(b"/", 200, ("/", "test/1"), ("/", "test/1")),
    kind(b"/shop/cart?item=1&n=2", 200, ("/shop/cart", "test/1"), ("/shop/cart?item=1&n=2", "test/1")),
    kind(b"/missing", 404, ("/missing", "test/1"), ("/missing", "test/1")),
    kind(b"/missing/more?", 404, ("/missing/more", "test/1"), ("/missing/more?", "test/1")),
    kind(b"/broken", 503, ("/broken", "test/1"), ("/broken", "test/1")),
    kind(b'/"q"\\\\x41?"', 200, (r"/\x22q\x22\x5C\x5Cx41", "test/1"), ('/"q"\\\\x41?"', "test/1")),
    kind("/é/日本".encode(), 200, (r"/\xC3\xA9/\xE6\x97\xA5\xE6\x9C\xAC", "test/1"), ("/é/日本", "test/1")),
    kind(b"/\xff\xfe", 200, (r"/\xFF\xFE", "test/1"), ("/��", "test/1")),
    kind(b"/%22%0A%5C", 200, ("/%22%0A%5C", "test/1"), ("/%22%0A%5C", "test/1")),
    kind(b"/" + b"long" * 1500, 200, ("/" + "long" * 1500, "test/1"), ("/" + "long" * 1500, "test/1")),
    kind(b"/a", 200, ("/a", r"\x22\x5C\x22, \x5Cu0041 \x5C"), ("/a", '"\\", \\u0041 \\'), agent=rb'"\", \u0041 \ '),
    kind(b"/a", 200, ("/a", r"\x01\x1B[31m\x09\x0B\x0C\x1C\x7Fx"), ("/a", "\1\x1b[31m\t\v\f\x1c\x7fx"),
         agent=b"\1\x1b[31m\t\v\f\x1c\x7fx"),
    kind(b"/a", 200, ("/a", r"\xE2\x80\xA8\xC2\x85\xF0\x9F\x90\x9D"), ("/a", "\u2028\x85🐝"),
         agent="\u2028\x85🐝".encode()),
    kind(b"/a", 200, ("/a", r"\x80|\xC3"), ("/a", "�|�"), agent=b"\x80|\xc3"),
    kind(b"/a", 200, ("/a", None), ("/a", ""), agent=b""),
    kind(b"/a", 200, ("/a", None), ("/a", "-"), agent=b"-"),
    kind(b"/with space", 400, ("/with space", None), ("", "")),
    kind(b"/\1", 400, (r"/\x01", None), ("", "")),
    kind(b"/" + b"longer" * 2000, 414, (("/" + "longer" * 2000)[:KEPT_OF_A_LONG_TARGET], None), ("", "")),
    Kind(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\n\n", 400, (None, None), ("", "")),
    Kind(b"GET /a HTTP/1.1\r\n\r\n", 400, ("/a", None), ("/a", "")),
    Kind(b"GET\r\n\r\n", 400, (None, None), ("", "")),
]  # fmt: skip


@dataclass(frozen=True)
class Stage:
    servers: Sequence[Nginx]
    fleet: AgentFleet
    sent: Counter[Kind]
    logged: Counter[Kind]
    """What was sent, also before all counted it."""
    watches: dict[str, Watch]


def spec(number: int, server: Nginx) -> AgentSpec:
    return AgentSpec(
        f"web-{number}",
        (
            StreamFiles("access", (f"{server.folder}/access.log*",)),
            StreamFiles("events", (f"{server.folder}/events.log",), time_field="msec"),
            StreamFiles("kept", (f"{server.folder}/events.log*",), time_field="msec"),
        ),
    )


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Servers that have been busy while their logs were rotated, and all windows of that time."""
    folder = tmp_path_factory.mktemp("nginx")
    with ExitStack() as stack:
        servers = [
            stack.enter_context(Nginx(folder / f"web-{number}", free_port(), time_zone=zone))
            for number, zone in enumerate(TIME_ZONES)
        ]
        fleet = stack.enter_context(
            AgentFleet(folder / "agents", [spec(number, server) for number, server in enumerate(servers)])
        )
        for number, (stream, text) in enumerate(LIVE.items()):
            submit(fleet.socket(f"web-{number}"), text, f"live-{stream}", agents=len(servers))
        await_next_second()
        watches = {stream: stack.enter_context(Watch(fleet.socket("web-2"), f"live-{stream}")) for stream in LIVE}
        before = until_all_count(servers, watches.values())
        sent = sent_while_rotating(servers)
        for watch in watches.values():
            wait_until(lambda watch=watch: marks_of(watch) >= len(servers), "the last window", WINDOWS_TIMEOUT_S)
        yield Stage(servers, fleet, sent, sent + before, watches)
    assert fleet.faults() == []


def await_next_second() -> None:
    """A live job counts from the first window that begins after it was installed."""
    now = int(time.time())
    wait_until(lambda: int(time.time()) > now, "the next second")


def until_all_count(servers: Sequence[Nginx], watches: Collection[Watch]) -> Counter[Kind]:
    """Sends requests until a window of each job has one of each server: a feed that opens late begins later. What was
    counted by then is forgotten; returns what was sent.
    """
    sent: Counter[Kind] = Counter()

    def is_whole(watch: Watch) -> bool:
        rows = watch.windows[-1].result.rows if watch.windows else []
        return sum(row["n"] for row in rows) == len(servers)

    for _ in range(20):
        await_next_second()
        seen = [len(watch.windows) for watch in watches]
        for server in servers:
            client = Client(server.port)
            client.send(KINDS[0])
            client.close()
            sent += client.sent
        wait_until(
            lambda seen=seen: all(len(watch.windows) > before for watch, before in zip(watches, seen, strict=True)),
            "a window of each job",
            WINDOWS_TIMEOUT_S,
        )
        if all(map(is_whole, watches)):
            break
    for watch in watches:
        watch.windows.clear()
    return sent


def sent_while_rotating(servers: Sequence[Nginx]) -> Counter[Kind]:
    """Everything the clients sent, the last of it a mark to each server."""
    with Load(servers, KINDS) as load:
        for number in range(ROTATIONS):
            load.wait_for_more(REQUESTS_BETWEEN)
            for server in servers:
                server.rotate(by_command=number % 2 == 0)
        load.wait_for_more(REQUESTS_BETWEEN // 4)
    markers = [Client(server.port) for server in servers]
    for marker in markers:
        marker.send(MARK)
        marker.close()
    return sum((client.sent for client in [*load.clients, *markers]), Counter())


def marks_of(watch: Watch) -> int:
    assert watch.error is None, repr(watch.error)
    rows = [row for came in list(watch.windows) for row in came.result.rows]
    return sum(row["n"] for row in rows if row["seen"] == "/mark")


def counted(watch: Watch) -> Counter[tuple[int, str | None, str | None]]:
    counts: Counter[tuple[int, str | None, str | None]] = Counter()
    for came in watch.windows:
        for row in came.result.rows:
            counts[row["status"], row["seen"], row["agent"]] += row["n"]
    return counts


def expected(sent: Counter[Kind], shown: Callable[[Kind], Seen]) -> Counter[tuple[int, str | None, str | None]]:
    counts: Counter[tuple[int, str | None, str | None]] = Counter()
    for one, number in sent.items():
        counts[one.status, *shown(one)] += number
    return counts


def by_status(counts: Counter[tuple[int, str | None, str | None]]) -> dict[int, int]:
    statuses: Counter[int] = Counter()
    for (status, *_), number in counts.items():
        statuses[status] += number
    return dict(statuses)


@pytest.mark.parametrize(
    ("stream", "shown"),
    [("access", lambda one: one.combined), ("events", lambda one: one.event)],
    ids=["combined", "json"],
)
def test_every_request_is_counted_once_over_rotations(stage: Stage, stream: str, shown: Callable[[Kind], Seen]) -> None:
    watch = stage.watches[stream]
    sent = expected(stage.sent, shown)
    assert by_status(counted(watch)) == by_status(sent)
    assert counted(watch) == sent
    results = [came.result for came in watch.windows]
    assert sum(result.events for result in results) == stage.sent.total()
    assert [
        (r.window_start, r.late, r.malformed, r.missing) for r in results if r.late or r.malformed or r.missing
    ] == []
    assert len({result.window_start for result in results}) == len(results)


def printed(*words: str) -> list[tuple[Any, ...]]:
    """Rows, windows and counts of an `elf` command."""
    done = elf(*words, "--output", "json")
    assert done.code == 0, done.err
    lines = [json.loads(line) for line in done.out.split("\n") if line]  # U+2028 ends no line
    keys = ("window_start", "window_end", "rows", "events", "malformed", "coerced", "late", "missing")
    return [tuple(line[key] for key in keys) for line in lines]


@pytest.mark.parametrize("stream", ["access", "kept"])
@pytest.mark.parametrize(
    "text",
    ["SELECT status, COUNT(*) AS n FROM {} GROUP BY status WINDOWING 1 SECOND", "SELECT * FROM {} LIMIT 100000"],
    ids=["windows", "lines"],
)
def test_what_the_logs_hold_is_what_elf_local_finds_in_them(stage: Stage, stream: str, text: str) -> None:
    name = {"access": "access.log", "kept": "events.log"}[stream]
    files = [f"--source={stream}={path}" for server in stage.servers for path in server.kept(name)]
    assert len(files) == len(stage.servers) * (ROTATIONS + 1)
    options = ["--time-field=msec"] if stream == "kept" else []
    asked = printed("query", "--once", f"--socket={stage.fleet.socket('web-1')}", text.format(stream))
    assert asked == printed("local", "--agents=3", *options, *files, text.format(stream))
    assert sum(events for *_, events, _malformed, _coerced, _late, _missing in asked) == stage.logged.total()


def test_the_rotated_logs_hold_every_request(stage: Stage) -> None:
    """That the servers lost none, so that the counts above are the agents' own merit."""
    for name in ("access.log", "events.log"):
        lines = 0
        for server in stage.servers:
            lines += sum(len(read(path).splitlines()) for path in server.kept(name))
        assert lines == stage.logged.total()


def read(path: Path) -> bytes:
    return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
