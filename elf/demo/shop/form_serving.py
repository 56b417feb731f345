"""A web server that takes forms at one path, answers JSON, and logs an event for some of them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qsl

from elf.demo.shop.journal import AccessClock, Journal, access_line
from elf.demo.shop.serving import BoundedServer

_FORM_BYTES_MAX = 1_024
_FIELDS_MAX = 8


@dataclass(frozen=True, slots=True)
class FormAnswer:
    """The JSON value that answers a form, and the event to log, if any."""

    value: dict[str, Any]
    event: dict[str, Any] | None = None
    status: HTTPStatus = HTTPStatus.OK


Take = Callable[[bytes, str], FormAnswer]
"""Answers a form; the text is that of the header Cookie."""


class FormServer(BoundedServer):
    """Takes forms by `POST path`. `asked`: what it takes, for those who ask for something else."""

    def __init__(self, journal: Journal, path: str, asked: str, take: Take) -> None:
        self.journal = journal
        self.path = path
        self.asked = asked
        self.take = take
        self.clock = AccessClock()
        super().__init__(_Handler)


class _Handler(BaseHTTPRequestHandler):
    server: FormServer
    protocol_version = "HTTP/1.1"
    timeout = 30
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        is_sized = length.isascii() and length.isdigit() and int(length[:9]) <= _FORM_BYTES_MAX
        if not is_sized or self.path != self.server.path:
            self.close_connection = True
            error = f"POST {self.server.path}, with {self.server.asked}"
            return self._answer(FormAnswer({"error": error}, status=HTTPStatus.BAD_REQUEST))
        return self._answer(self.server.take(self.rfile.read(int(length)), self.headers.get("Cookie", "")))

    def log_message(self, format: str, *args: Any) -> None:
        """Logs nothing: the journal is the log."""

    def _answer(self, answer: FormAnswer) -> None:
        body = json.dumps(answer.value).encode()
        address, status = str(self.client_address[0]), int(answer.status)
        when = self.server.clock.text(time.time())
        access = access_line(address, when, self.requestline, status, len(body), referer=None, user_agent=None)
        event = None if answer.event is None else json.dumps(answer.event, ensure_ascii=False, separators=(",", ":"))
        if not self.server.journal.record(access, event):
            self.close_connection = True
            return
        head = f"HTTP/1.1 {status} {answer.status.phrase}\r\nContent-Type: application/json\r\n"
        self.wfile.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)


def fields_of(form: bytes) -> dict[str, str]:
    """The fields of a form. Raises ValueError for what is none, or has more than eight.

    >>> fields_of(b"area=Als&amount=900")
    {'area': 'Als', 'amount': '900'}
    """
    return dict(parse_qsl(form.decode("ascii"), max_num_fields=_FIELDS_MAX))
