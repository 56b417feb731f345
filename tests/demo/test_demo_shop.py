"""The demo shop as a whole: real processes, real requests, and logs that hold every one of them."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http.client import HTTPConnection
from pathlib import Path

import pytest

from elf.demo import DemoError, LoadReport, Server, Shop, run_load
from elf.demo.catalogue import LOCATIONS, PRODUCTS, SPAMMERS, STORES, VISITORS

COMBINED = re.compile(
    r"(?P<address>[0-9a-f.:]+) - (?P<user>\S+)"
    r" \[(?P<time>\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4})\]"
    r' "(?P<request>(?:[^"\\]|\\x[0-9A-F]{2})*)" (?P<status>\d{3}) (?P<bytes>\d+)'
    r' "(?P<referer>(?:[^"\\]|\\x[0-9A-F]{2})*)" "(?P<agent>(?:[^"\\]|\\x[0-9A-F]{2})*)"'
)
DEADLINE_S = 120.0


@dataclass(frozen=True)
class Outcome:
    servers: tuple[Server, ...]
    load: LoadReport
    progress: list[LoadReport]
    access: list[re.Match[str]]
    events: list[dict]


def lines(path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8")
    assert text == "" or text.endswith("\n")
    return text.splitlines()


def wait_for(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, f"in vain: {what}"
        time.sleep(0.02)


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def refuses(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return True
    return False


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    progress: list[LoadReport] = []
    with Shop(tmp_path_factory.mktemp("shop"), servers=2) as shop:
        load = shop.run_load(2.0, progress.append, rate=500, seed=7)
    access = [COMBINED.fullmatch(line) for server in shop.servers for line in lines(server.access_log)]
    assert all(access)
    events = [json.loads(line) for server in shop.servers for line in lines(server.event_log)]
    return Outcome(shop.servers, load, progress, [match for match in access if match], events)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with Shop(tmp_path, servers=1) as shop:
        yield shop.servers[0]


def test_every_answered_request_is_a_line_of_an_access_log(outcome: Outcome) -> None:
    assert outcome.load.errors == 0
    assert outcome.load.requests > 200
    statuses = Counter(int(line["status"]) for line in outcome.access)
    assert dict(statuses) == dict(outcome.load.statuses)
    assert outcome.load.requests == len(outcome.access)


def test_access_lines_are_what_nginx_would_have_written(outcome: Outcome) -> None:
    now = datetime.now(UTC)
    for line in outcome.access:
        when = datetime.strptime(line["time"], "%d/%b/%Y:%H:%M:%S %z")
        assert abs(now - when) < timedelta(minutes=5)
        assert re.fullmatch(r"(GET|POST) /\S* HTTP/1\.1", line["request"])
        assert line["address"] in {user.address for user in VISITORS}
        assert line["referer"]
    assert any("\\x22compare everything\\x22" in line["agent"] for line in outcome.access)
    assert {line["referer"] for line in outcome.access} > {"-"}
    assert all(line["bytes"] == "0" for line in outcome.access if line["status"] == "303")


def test_what_visitors_do_is_events(outcome: Outcome) -> None:
    load, events = outcome.load, outcome.events
    assert len(events) == load.events == load.views + load.likes + load.buys + load.comments
    assert sum(event["likes_count"] for event in events) == load.likes > 5
    assert sum("text" in event for event in events) == load.comments > 5
    assert sum(event["clicks_count"] for event in events) == load.clicks > load.views
    assert sum(event["buys_count"] for event in events) == load.bought >= load.buys > 0


def test_events_have_the_fields_of_figure_4(outcome: Outcome) -> None:
    stores = {product.name: product.store for product in PRODUCTS}
    people = {user.id: user for user in VISITORS}
    fields = ["created_at", "id", "product", "clicks_count", "buys_count", "store", "user"]
    for event in outcome.events:
        assert list(event)[:7] == fields
        assert event.keys() - fields <= {"likes_count", "sale", "text"}
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", event["created_at"])
        assert stores[event["product"]] == event["store"]
        user = event["user"]
        known = people[user["id"]]
        assert (user["name"], user["location"], user["followers"]) == (known.name, known.location, known.followers)
        assert (user["longitude"], user["latitude"]) == (known.longitude, known.latitude)
    ids = [event["id"] for event in outcome.events]
    assert len(set(ids)) == len(ids)
    assert all(2**53 < event_id < 2**63 for event_id in ids)
    assert "video_games" in STORES


def test_visitors_stay_with_one_server_and_a_campaign_publishes_sales(outcome: Outcome) -> None:
    servers: dict[int, set[str]] = {}
    for server in outcome.servers:
        for line in lines(server.event_log):
            servers.setdefault(json.loads(line)["user"]["id"], set()).add(server.name)
    assert {len(names) for names in servers.values()} == {1}
    spam = [event for event in outcome.events if event["user"]["id"] in {user.id for user in SPAMMERS}]
    assert len(spam) > 5
    assert all(event["sale"] and event["user"]["location"] not in LOCATIONS for event in spam)
    assert all(event["sale"] == ("sale" in event["text"].lower()) for event in outcome.events if "text" in event)


def test_the_crowd_comes_half_way_and_wants_one_product(outcome: Outcome) -> None:
    counted = Counter(event["product"] for event in outcome.events if event["clicks_count"])
    assert counted[outcome.load.flash_product] == outcome.load.flash_views > 5


def test_progress_is_reported_on_the_way_and_at_the_end(outcome: Outcome) -> None:
    assert 2 <= len(outcome.progress) <= 11
    requests = [report.requests for report in outcome.progress]
    assert requests == sorted(requests)
    assert outcome.progress[-1] == outcome.load
    assert outcome.load.seconds == 2.0


def test_servers_have_different_ports_and_all_get_visitors(outcome: Outcome) -> None:
    assert len({server.port for server in outcome.servers}) == 2
    assert [server.name for server in outcome.servers] == ["shop-0", "shop-1"]
    assert all(len(lines(server.access_log)) > 50 for server in outcome.servers)


def test_nothing_is_left_when_the_block_ends(outcome: Outcome) -> None:
    assert not any(is_running(server.pid) for server in outcome.servers)
    assert all(refuses(server.port) for server in outcome.servers)


def test_an_error_in_the_block_ends_the_servers_too(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), Shop(tmp_path, servers=1) as shop:
        raise KeyboardInterrupt
    assert not is_running(shop.servers[0].pid)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_server_with_its_logs_complete(tmp_path: Path, number: signal.Signals) -> None:
    command = [sys.executable, "-m", "elf.demo.shop.shop", "--name", "shop-0", "--directory", str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        ready = json.loads(process.stdout.readline())
        client = HTTPConnection("127.0.0.1", ready["port"], timeout=DEADLINE_S)
        for _ in range(20):
            client.request("GET", "/missing")
            assert client.getresponse().read()
        process.send_signal(number)
        assert process.wait(DEADLINE_S) == 0
        client.close()
    assert ready["name"] == "shop-0"
    assert len(lines(tmp_path / "access.log")) == 20
    assert lines(tmp_path / "events.json") == []


def test_servers_end_by_themselves_when_their_parent_is_killed(tmp_path: Path) -> None:
    script = (
        "import sys; from elf.demo import Shop\n"
        f"with Shop({str(tmp_path)!r}, servers=2) as shop:\n"
        "    print(*(f'{server.pid}:{server.port}' for server in shop.servers), flush=True)\n"
        "    sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        servers = [tuple(map(int, word.split(b":"))) for word in parent.stdout.readline().split()]
        assert len(servers) == 2
        assert not any(refuses(port) for _, port in servers)
        parent.kill()
    wait_for(lambda: not any(is_running(pid) for pid, _ in servers), "the servers' end")
    assert all(refuses(port) for _, port in servers)
    assert len(list(tmp_path.glob("shop-*/access.log"))) == 2


def test_a_server_that_cannot_start_is_named_with_its_reason(tmp_path: Path) -> None:
    (tmp_path / "shop-1").write_text("in the way")
    with pytest.raises(DemoError, match=r"^shop-1 did not start: .*File exists.*shop-1'$"):
        Shop(tmp_path, servers=2).__enter__()


def test_a_server_that_dies_during_the_load_is_named(tmp_path: Path) -> None:
    with Shop(tmp_path, servers=2) as shop:

        def kill_one(report: LoadReport) -> None:
            if report.elapsed_s < 1 and is_running(shop.servers[1].pid):
                os.kill(shop.servers[1].pid, signal.SIGKILL)

        with pytest.raises(DemoError, match="shop-1 ended too early: exit code -9"):
            shop.run_load(1.5, kill_one, rate=200)


def test_servers_that_are_not_there_cost_errors_only() -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    report = run_load([port], 0.3, rate=100)
    assert report.requests == 0
    assert 0 < report.errors <= 30


@pytest.mark.parametrize(("seconds", "rate"), [(0, 10), (-1, 10), (1e9, 10), (1, 0), (1, 1e9), (float("nan"), 1)])
def test_a_load_out_of_bounds_is_refused(seconds: float, rate: float) -> None:
    with pytest.raises(DemoError, match="the load"):
        run_load([], seconds, rate=rate)


@pytest.mark.parametrize("servers", [0, -1, 65])
def test_a_shop_out_of_bounds_is_refused(tmp_path: Path, servers: int) -> None:
    with pytest.raises(DemoError, match="between 1 and 64 servers"):
        Shop(tmp_path, servers=servers)


def exchange(port: int, data: bytes) -> bytes:
    """Send `data` as it is, close the sending side, read to the end."""
    received = bytearray()
    with socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S) as connection:
        with suppress(OSError):  # the server may refuse before it has read everything
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
        with suppress(ConnectionResetError):
            while chunk := connection.recv(65_536):
                received += chunk
    return bytes(received)


def test_a_product_is_shown_with_the_discount_that_the_agent_beside_the_server_names(tmp_path: Path) -> None:
    shown = tmp_path / "shown"
    shown.mkdir()
    with Shop(tmp_path, servers=1, shown=lambda _: shown) as shop:
        client = HTTPConnection("127.0.0.1", shop.servers[0].port, timeout=DEADLINE_S)

        def page() -> bytes:
            client.request("GET", "/product/angry-birds-season")
            return client.getresponse().read()

        assert b"% off" not in page()
        for text in ('{"discounts":["Angry Birds Season"]}', "nonsense", '{"discounts":5}'):
            (shown / "new").write_text(text)
            (shown / "new").replace(shown / "micro-promotion.json")
            wait_for(lambda: b"10 % off" in page(), "a page with the discount")
        (shown / "micro-promotion.json").write_text('{"discounts":["Angry Birds Deluxe"]}')
        wait_for(lambda: b"% off" not in page(), "a page without it")
        client.close()
    discounts = [json.loads(line).get("discount") for line in lines(shop.servers[0].event_log)]
    assert discounts[0] is discounts[-1] is None
    assert discounts.count(10) >= 3


HOSTILE = [
    (b"\r\n", None),
    (b"GARBAGE\r\n\r\n", 400),
    (b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", 400),
    (b"GET / HTTP/9.9\r\n\r\n", 505),
    (b"BREW / HTTP/1.1\r\n\r\n", 501),
    (b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n", 414),
    (b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 200 + b"\r\n", 431),
    (b"GET //[ HTTP/1.1\r\n\r\n", 404),
    (b"GET /product/angry-birds-season?clicks=" + b"9" * 9_000 + b" HTTP/1.1\r\n\r\n", 400),
    (b"GET /product/angry-birds-season?" + b"&".join([b"a=1"] * 50) + b" HTTP/1.1\r\n\r\n", 400),
    (b"POST /cart HTTP/1.1\r\n\r\n", 411),
    (b"POST /cart HTTP/1.1\r\nContent-Length: -5\r\n\r\n", 411),
    (b"POST /cart HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n", 413),
    (b"POST /cart HTTP/1.1\r\nContent-Length: 3\r\n\r\n\xff\xfe\xfd", 400),
    (b"POST /cart HTTP/1.1\r\nContent-Length: 9\r\n\r\nproduct=x", 404),
    (b"POST /comment HTTP/1.1\r\nContent-Length: 26\r\n\r\nproduct=angry-birds-season", 400),
    (b"POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n", 404),
    (b"POST /cart HTTP/1.1\r\nContent-Length: 50\r\n\r\nshort", None),
]


@pytest.mark.fuzz
def test_hostile_requests_are_refused_logged_and_survived(server: Server) -> None:
    statuses = []
    for data, status in HOSTILE:
        answer = exchange(server.port, data)
        assert answer.startswith(f"HTTP/1.1 {status} ".encode() if status else b""), data[:80]
        statuses += [status] if status else []
    assert b"HTTP/1.1 404" in exchange(server.port, b"GET /missing HTTP/1.1\r\n\r\n")
    wait_for(lambda: len(lines(server.access_log)) == len(statuses) + 1, "the lines of all answers")
    logged = [COMBINED.fullmatch(line) for line in lines(server.access_log)]
    assert [int(line["status"]) for line in logged if line] == [*statuses, 404]
    assert lines(server.event_log) == []


def test_a_client_that_pipelines_behind_an_unread_body_is_cut_off(server: Server) -> None:
    smuggled = b"GET /missing HTTP/1.1\r\nContent-Length: 40\r\n\r\nGET / HTTP/1.1\r\nHost: shop.example\r\n\r\n"
    assert exchange(server.port, smuggled).count(b"HTTP/1.1 ") == 1


def test_a_head_request_has_no_body_and_is_no_event(server: Server) -> None:
    client = HTTPConnection("127.0.0.1", server.port, timeout=DEADLINE_S)
    client.request("HEAD", "/product/angry-birds-season")
    answer = client.getresponse()
    assert int(answer.headers["Content-Length"]) > 0
    assert answer.read() == b""
    client.close()
    wait_for(lambda: len(lines(server.access_log)) == 1, "its line")
    assert '"HEAD /product/angry-birds-season HTTP/1.1" 200 0 "-" "-"' in lines(server.access_log)[0]
    assert lines(server.event_log) == []
