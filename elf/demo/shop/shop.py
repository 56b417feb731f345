"""One web server of the demo shop: `python -m elf.demo.shop.shop --name shop-0 --directory DIR`.

It writes `access.log` and `events.json` into DIR. Like an nginx behind a load balancer on the same machine
(`real_ip_header X-Forwarded-For`), it takes the visitor's address from that header.
"""

import contextlib
import random
import sys
import time
from collections.abc import Sequence
from http import HTTPStatus
from http.client import HTTPMessage
from http.server import BaseHTTPRequestHandler
from ipaddress import ip_address
from typing import Any

from elf.demo.catalogue import VISITORS, User
from elf.demo.shop.journal import AccessClock, Journal, Snowflakes, access_line, event_line
from elf.demo.shop.pages import PageResponse, Site
from elf.demo.shop.serving import BoundedServer, Options, run_server
from elf.demo.shop.shown_value import ShownValue

FAILURE_SHARE = 0.004
"""Share of good requests that end with status 500, as if a service behind the shop had failed."""

_FORM_BYTES_MAX = 16_384
_REQUEST_LINE_LOGGED_MAX = 8_192
_GUEST = User(id=0, name="@guest", location="unknown", address="127.0.0.1")
_USERS = {str(user.id): user for user in VISITORS}


class ShopServer(BoundedServer):
    """The listening socket and the state all requests share."""

    def __init__(
        self, journal: Journal, snowflakes: Snowflakes, failures: random.Random, discounts: ShownValue[frozenset[str]]
    ) -> None:
        self.journal = journal
        self.discounts = discounts
        self.snowflakes = snowflakes
        self.failures = failures
        self.site = Site()
        self.clock = AccessClock()
        super().__init__(_Handler)


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
        self._answer(self.server.site.get(self.path, self.server.discounts.value()))

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


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line of one server."""
    return run_server("elf.demo.shop.shop", _made, arguments)


def _products(shown: Any) -> frozenset[str]:
    """Names of products with a discount."""
    return frozenset(map(str, shown["discounts"]))


def _made(options: Options, journal: Journal) -> ShopServer:
    discounts = ShownValue[frozenset[str]](options.shown, "micro-promotion.json", _products, frozenset())
    return ShopServer(journal, Snowflakes(options.worker), random.Random(options.name), discounts)


if __name__ == "__main__":
    sys.exit(main())
