"""One web server of the demo shop: `python -m elf.demo.shop.shop --name shop-0 --directory DIR`.

It listens on a free port of 127.0.0.1, prints `{"name": "shop-0", "port": 40123}` once it is ready, and writes
`access.log` and `events.json` into DIR. It ends, with every answered request in its logs, at SIGTERM or SIGINT or when
its standard input ends: the starter holds the other end of that pipe, so no server outlives it. Like an nginx behind a
load balancer on the same machine (`real_ip_header X-Forwarded-For`), it takes the visitor's address from that header.
"""

import argparse
import contextlib
import json
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Sequence
from http import HTTPStatus
from http.client import HTTPMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from elf.demo.catalogue import VISITORS, User
from elf.demo.shop.discounts import Discounts
from elf.demo.shop.journal import AccessClock, Journal, Snowflakes, access_line, event_line
from elf.demo.shop.pages import PageResponse, Site

FAILURE_SHARE = 0.004
"""Share of good requests that end with status 500, as if a service behind the shop had failed."""

_CONNECTIONS_MAX = 128
_FORM_BYTES_MAX = 16_384
_REQUEST_LINE_LOGGED_MAX = 8_192
_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_GUEST = User(id=0, name="@guest", location="unknown", address="127.0.0.1")
_USERS = {str(user.id): user for user in VISITORS}


class ShopServer(ThreadingHTTPServer):
    """The listening socket and the state all requests share; a thread per connection, of which there are few."""

    request_queue_size = 128

    def __init__(self, journal: Journal, snowflakes: Snowflakes, failures: random.Random, discounts: Discounts) -> None:
        self.journal = journal
        self.discounts = discounts
        self.snowflakes = snowflakes
        self.failures = failures
        self.site = Site()
        self.clock = AccessClock()
        self._slots = threading.BoundedSemaphore(_CONNECTIONS_MAX)
        super().__init__(("127.0.0.1", 0), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._slots.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._slots.release()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - the signature is given
        error = sys.exception()
        if not isinstance(error, OSError):  # a client that went away is no news
            print(f"request failed: {error!r}", file=sys.stderr, flush=True)


class _Handler(BaseHTTPRequestHandler):
    server: ShopServer
    protocol_version = "HTTP/1.1"
    timeout = 30
    raw_requestline = b""
    disable_nagle_algorithm = True

    def handle_one_request(self) -> None:
        self.headers = HTTPMessage()  # a request refused for its first line must not show its predecessor's
        super().handle_one_request()

    def do_GET(self) -> None:
        if self.headers.get("Transfer-Encoding") or self.headers.get("Content-Length", "0") != "0":
            self.close_connection = True  # its body stays unread, so later requests could not be parsed
        self._answer(self.server.site.get(self.path, self.server.discounts.products()))

    do_HEAD = do_GET  # noqa: N815 - http.server looks for this name

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        if self.headers.get("Transfer-Encoding") or not (length.isascii() and length.isdigit()):
            return self.send_error(HTTPStatus.LENGTH_REQUIRED)
        if len(length) > 9 or int(length) > _FORM_BYTES_MAX:
            return self.send_error(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        form = self.rfile.read(int(length))
        if len(form) < int(length):
            self.close_connection = True
            return None
        return self._answer(self.server.site.post(self.path, form))

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:  # noqa: ARG002
        """Answers requests that http.server itself refuses, with a line in the log."""
        self.close_connection = True
        self._answer(PageResponse(int(code), f"{HTTPStatus(code).phrase}\n".encode()))

    def log_message(self, format: str, *args: Any) -> None:
        """Logs nothing: the journal is the log."""

    def _answer(self, answer: PageResponse) -> None:
        if answer.status < 400 and self.server.failures.random() < FAILURE_SHARE:
            answer = self.server.site.failure
        body = b"" if self.command == "HEAD" else answer.body
        now_s = time.time()
        if not self.server.journal.record(
            self._access_line(now_s, answer.status, len(body)), self._event_line(now_s, answer)
        ):
            self.close_connection = True
            return
        head = [
            f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}",
            "Server: elf-shop",
            "Content-Type: text/html; charset=utf-8",
            f"Content-Length: {len(answer.body)}",
        ]
        if answer.location:
            head.append(f"Location: {answer.location}")
        if self.close_connection:
            head.append("Connection: close")
        self.wfile.write("\r\n".join((*head, "\r\n")).encode() + body)

    def _access_line(self, now_s: float, status: int, body_bytes: int) -> str:
        request = self.raw_requestline[:_REQUEST_LINE_LOGGED_MAX].decode("latin-1").rstrip("\r\n")
        return access_line(
            self._address(),
            self.server.clock.text(now_s),
            request,
            status,
            body_bytes,
            referer=self.headers.get("Referer"),
            user_agent=self.headers.get("User-Agent"),
        )

    def _event_line(self, now_s: float, answer: PageResponse) -> str | None:
        if answer.product is None or self.command == "HEAD":
            return None
        user = _USERS.get(self.headers.get("Cookie", "").removeprefix("user="), _GUEST)
        event_id = self.server.snowflakes.take(now_s)
        return event_line(
            now_s,
            event_id,
            answer.product,
            user,
            clicks=answer.clicks,
            buys=answer.buys,
            likes=answer.likes,
            text=answer.text,
            discount=answer.discount,
        )

    def _address(self) -> str:
        forwarded = self.headers.get("X-Forwarded-For", "").rpartition(",")[2].strip()
        with contextlib.suppress(ValueError):
            return str(ip_address(forwarded))
        return str(self.client_address[0])


def serve(name: str, directory: Path, worker: int, shown: Path | None) -> int:
    """Runs one server until it is told to stop; returns the exit code. Must run in the process's main thread."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _STOP_SIGNALS)  # before any thread: all of them inherit it
    failed: list[OSError] = []

    def fail(error: OSError) -> None:
        failed.append(error)
        _stop()

    directory.mkdir(parents=True, exist_ok=True)
    journal = Journal(directory, fail)
    with ShopServer(journal, Snowflakes(worker), random.Random(name), Discounts(shown)) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        threading.Thread(target=_stop_with_parent, daemon=True).start()
        print(json.dumps({"name": name, "port": server.server_port}), flush=True)
        signal.sigwait(_STOP_SIGNALS)
        server.shutdown()
        journal.close()
    if failed:
        raise failed[0]
    return 0


def _stop() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def _stop_with_parent() -> None:
    with contextlib.suppress(OSError):
        while os.read(0, 4096):
            pass
    _stop()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m elf.demo.shop.shop",
        description="One web server of the demo shop. It ends with SIGTERM, Ctrl-C or the end of its input.",
    )
    parser.add_argument("--name", required=True, help="the server's name, such as shop-0")
    parser.add_argument("--directory", required=True, type=Path, help="where its two logs go")
    parser.add_argument("--worker", type=int, default=0, help="a number no other server has, for event ids")
    parser.add_argument("--shown", type=Path, help="where the agent beside it puts what jobs show")
    options = parser.parse_args(arguments)
    try:
        return serve(options.name, options.directory, options.worker, options.shown)
    except (OSError, ValueError) as error:
        print(f"{options.name}: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
