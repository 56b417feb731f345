"""Requests for metrics without a socket: what is answered, and that nothing else is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.metrics.exchange import HEAD_BYTES_MAX, Exchange
from agent.metrics.pages import Page

HEAD = b"Host: a\r\n\r\n"


def page(method: str, target: str) -> Page:
    known = method in ("GET", "HEAD")
    return Page(200 if known else 405, "text/plain", f"{method} {target}".encode())


def answer(*pieces: bytes) -> bytes | None:
    """The answer to a request that comes in pieces."""
    exchange = Exchange(page)
    for piece in pieces:
        found = exchange.receive(piece)
        if found is not None:
            return found
    return None


def status(found: bytes | None) -> int:
    assert found is not None
    return int(found.split()[1])


def test_a_request_is_answered_once_its_head_is_there() -> None:
    assert answer(b"GET /metrics HTTP/1.1\r\n", b"Host: a\r\n") is None
    found = answer(b"GET /met", b"rics HTTP/1.1\r\nHo", b"st: a\r\n\r\n")
    assert found is not None
    head, _, content = found.partition(b"\r\n\r\n")
    assert content == b"GET /metrics"
    assert b"Connection: close" in head
    assert b"Content-Length: 12" in head


def test_head_has_no_content() -> None:
    found = answer(b"HEAD /healthz HTTP/1.1\r\n" + HEAD)
    assert found is not None
    assert found.endswith(b"\r\n\r\n")
    assert b"Content-Length: 13" in found


@pytest.mark.parametrize(
    ("request_bytes", "expected"),
    [
        (b"POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n" + HEAD, 405),
        (b"GET /metrics HTTP/1.1\r\n\r\n", 400),  # no host
        (b"GET /metrics HTTP/1.1\r\nHost: a\r\nX: a\x00b\r\n\r\n", 400),
        (b"GET /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n", 400),
        (b"GET /metrics HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, chunked\r\n\r\n", 501),
        (b"GET /metrics HTTP/1.1\r\nHost: a\r\nbad name: 1\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\r\n\r\n", 400),  # TLS
        (b"GET /metrics HTTP/1.1\r\nHost: a\r\n" + b"X: y\r\n" * HEAD_BYTES_MAX, 431),
        (b"A" * (HEAD_BYTES_MAX + 1), 431),
    ],
)
def test_what_is_no_request_is_refused(request_bytes: bytes, expected: int) -> None:
    exchange = Exchange(page)
    assert status(exchange.receive(request_bytes)) == expected
    assert exchange.is_refused or expected == 405


def test_of_several_requests_at_once_the_first_is_answered() -> None:
    found = answer((b"GET /metrics HTTP/1.1\r\n" + HEAD) * 1000)
    assert status(found) == 200
    assert found is not None
    assert (found.count(b"HTTP/1.1 "), b"Connection: close" in found) == (1, True)


def test_a_slow_client_is_told_so() -> None:
    exchange = Exchange(page)
    assert exchange.receive(b"GET /metrics HT") is None
    assert status(exchange.too_slow()) == 408


@given(st.lists(st.binary(max_size=300), max_size=8))
def test_any_bytes_get_an_answer_or_wait_for_more(pieces: list[bytes]) -> None:
    exchange = Exchange(page)
    for piece in pieces:
        found = exchange.receive(piece)
        if found is not None:
            assert found == b"" or found.startswith(b"HTTP/1.1 ")
            return
