"""A thousand connections, some that send or read slowly, and headers that no browser sends."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from urllib.parse import urlsplit

import httpx
import pytest
from agent_process import eventually
from fleet_for_pages import Dashboard, dashboard

import elf
from elf.dashboard.connection import CONNECTIONS_MAX, REQUEST_S, STALLED_S
from elf.demo.agents.agents import AgentFleet

pytestmark = [pytest.mark.slow, pytest.mark.dashboard]
CONNECTIONS = 1000
GET = b"GET /login HTTP/1.1\r\nHost: 127.0.0.1\r\n"
SLACK_S = 5.0


@pytest.fixture(scope="module")
def served(fleet: AgentFleet) -> Iterator[Dashboard]:
    """A page of its own: no other test is to wait for these connections to go."""
    with dashboard("--socket", fleet.socket("agent-1")) as running:
        yield running


def connect(served: Dashboard, receive_bytes: int | None = None) -> socket.socket:
    address = urlsplit(served.link)
    made = socket.socket()
    if receive_bytes is not None:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    made.settimeout(10.0)
    made.connect((address.hostname, address.port))
    return made


def answer_of(served: Dashboard, sent: bytes) -> bytes:
    """The first bytes of the answer, b"" for none."""
    with connect(served) as made, suppress(ConnectionError):
        with suppress(BrokenPipeError, ConnectionResetError):
            made.sendall(sent)
        return made.recv(1 << 16)
    return b""


def is_served(served: Dashboard) -> bool:
    with suppress(httpx.TransportError):
        return httpx.get(served.link.partition("?")[0]).status_code == 200
    return False


def is_cut_off(made: socket.socket) -> bool:
    """Whether the server has closed a connection, looked at without waiting."""
    made.setblocking(False)
    try:
        return made.recv(1 << 20) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


def test_a_thousand_connections_are_refused_beyond_the_limit_and_slow_ones_end(
    served: Dashboard, fleet: AgentFleet
) -> None:
    assert is_served(served)
    with ExitStack() as stack, elf.connect_sync(fleet.socket("agent-1")) as client:
        begun = time.monotonic()
        made = [stack.enter_context(connect(served)) for _ in range(CONNECTIONS)]
        refused = [one for one in made if is_cut_off_with_a_word(one)]
        assert len(refused) >= CONNECTIONS - CONNECTIONS_MAX
        assert client.status().name == "agent-1", "the agent knows nothing of it"
        slow = [one for one in made if one not in refused]
        assert slow, "some have places"

        def drip() -> bool:
            for one in slow:
                with suppress(OSError):
                    one.send(b"G")
            return all(map(is_cut_off, slow))

        eventually(drip, "those that send slowly are cut off", REQUEST_S + SLACK_S)
        assert time.monotonic() - begun < REQUEST_S + SLACK_S + 10.0
        eventually(lambda: is_served(served), "the page is served again")
    assert served.process.poll() is None


def is_cut_off_with_a_word(made: socket.socket) -> bool:
    """Whether the server has said that there are too many connections."""
    made.settimeout(0.05)
    try:
        return b"503" in made.recv(1 << 12)
    except TimeoutError:
        return False
    except ConnectionError:
        return True


def test_one_that_does_not_read_its_answers_is_cut_off(served: Dashboard) -> None:
    with connect(served, receive_bytes=4096) as made:
        made.setblocking(False)
        began = time.monotonic()

        def ask() -> bool:
            try:
                made.send((GET + b"\r\n") * 100)
            except BlockingIOError:
                return False
            except ConnectionError:
                return True
            return False

        eventually(ask, "it is cut off", STALLED_S + REQUEST_S + SLACK_S)
        assert time.monotonic() - began > 1.0
    assert is_served(served)


@pytest.mark.parametrize(
    "sent",
    [
        GET + b"X: " + b"a" * 1_000_000 + b"\r\n\r\n",
        GET + b"".join(b"X-%d: a\r\n" % number for number in range(100_000)) + b"\r\n",
        b"GET /" + b"a" * 1_000_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        GET + b"X: \x00\x1b[31m\r\n\r\n",
        GET + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        GET + b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"\r\n" * 100_000,
        b"GET http://[::1 HTTP/1.1\r\nHost: [\r\n\r\n",
        b"POST /login HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n" + b"a" * 1_000_000,
        GET + b"Cookie: " + b"elf-dashboard=;" * 1000 + b"\r\n\r\n",
        GET + b"Upgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
        b"POST /login HTTP/1.1\r\nHost: x\r\nOrigin: null\r\nContent-Length: 0\r\n\r\n",
    ],
    ids=[
        "long header", "many headers", "long address", "control characters", "two lengths", "chunk without an end",
        "TLS where there is none", "empty lines", "broken address", "long form",
        "many cookies", "no WebSocket", "no origin",
    ],
)  # fmt: skip
def test_hostile_requests_are_refused_or_answered_and_the_page_stays(served: Dashboard, sent: bytes) -> None:
    answer = answer_of(served, sent)
    assert answer == b"" or answer.split(b" ")[1] in (b"200", b"400", b"401", b"403", b"431"), answer[:200]
    assert is_served(served)
    assert served.process.poll() is None
