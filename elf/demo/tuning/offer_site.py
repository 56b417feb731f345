"""One web server with offers: `python -m elf.demo.tuning.offer_site --name shop-0 --directory DIR --shown SHOWN`.

A visitor's page asks for an offer (`POST /offer`), and tells in the same request what became of the last one. The
server deals visits to two slices by a hash of visitor and second, shows each slice the prominence that the job `opo`
says in SHOWN, and everybody else the best one so far. What became of an offer is a line in `events.json`.
"""

import hashlib
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qsl

from elf.demo.shop.journal import AccessClock, Journal, access_line
from elf.demo.shop.serving import BoundedServer, Options, run_server
from elf.demo.shop.shown_value import ShownValue

SLICES = ("a", "b")
REST = "rest"
"""Slice of the visits that get the best point so far."""
_DEALT = ("a", "a", "b", "b", REST)
_FORM_BYTES_MAX = 1_024
_FIELDS_MAX = 8


@dataclass(frozen=True, slots=True)
class Applied:
    """The prominence of each slice, in an experiment; 0 while the job has said nothing."""

    experiment: int
    prominence: dict[str, float]


START = 0.2
"""The prominence while the job has said nothing."""
NOTHING_SAID = Applied(0, dict.fromkeys(_DEALT, START))


def applied(shown: Any) -> Applied:
    """Reads what the job shows."""
    slices = {name: float(shown["slices"][name]["prominence"]) for name in SLICES}
    return Applied(int(shown["experiment"]), slices | {REST: float(shown["best"]["prominence"])})


def slice_of(user: str, second: int) -> str:
    """Deals a visitor to a slice, anew each second, so that no slice keeps those who click much.

    >>> {slice_of("7", second) for second in range(50)} == set(_DEALT)
    True
    """
    return _DEALT[hashlib.blake2b(f"{user} {second}".encode(), digest_size=4).digest()[0] % len(_DEALT)]


class OfferServer(BoundedServer):
    """The listening socket and the state all requests share."""

    def __init__(self, options: Options, journal: Journal) -> None:
        self.journal = journal
        self.clock = AccessClock()
        self.shown = ShownValue(options.shown, "opo.json", applied, NOTHING_SAID)
        super().__init__(_Handler)


class _Handler(BaseHTTPRequestHandler):
    server: OfferServer
    protocol_version = "HTTP/1.1"
    timeout = 30
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit() and int(length[:9]) <= _FORM_BYTES_MAX) or self.path != "/offer":
            self.close_connection = True
            return self._answer(400, {"error": "POST /offer, with what became of the last one"})
        became = _became(self.rfile.read(int(length)))
        shown = self.server.shown.value()
        name = slice_of(self.headers.get("Cookie", "").removeprefix("user="), int(time.time()))
        offer = {"slice": name, "experiment": shown.experiment, "prominence": shown.prominence[name]}
        return self._answer(200, offer, became)

    def log_message(self, format: str, *args: Any) -> None:
        """Logs nothing: the journal is the log."""

    def _answer(self, status: int, value: dict[str, Any], became: dict[str, Any] | None = None) -> None:
        body = json.dumps(value).encode()
        now_s = time.time()
        address = str(self.client_address[0])
        when = self.server.clock.text(now_s)
        access = access_line(address, when, self.requestline, status, len(body), referer=None, user_agent=None)
        if not self.server.journal.record(access, None if became is None else _event_line(now_s, became)):
            self.close_connection = True
            return
        head = f"HTTP/1.1 {status} {'OK' if status == 200 else 'Bad Request'}\r\nContent-Type: application/json\r\n"
        self.wfile.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)


def _became(form: bytes) -> dict[str, Any] | None:
    """The visit that a form tells of; None for one that tells of none."""
    try:
        fields = dict(parse_qsl(form.decode("ascii"), max_num_fields=_FIELDS_MAX))
        visit = {
            "slice": fields["slice"],
            "experiment": int(fields["experiment"]),
            "prominence": float(fields["prominence"]),
            "value": int(fields["value"]),
        }
    except (ValueError, KeyError):
        return None
    return visit if visit["slice"] in _DEALT and visit["value"] in (0, 1) else None


def _event_line(now_s: float, visit: dict[str, Any]) -> str:
    created_at = datetime.fromtimestamp(now_s, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return json.dumps({"created_at": created_at, **visit}, separators=(",", ":"))


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line of one server."""
    return run_server("elf.demo.tuning.offer_site", OfferServer, arguments)


if __name__ == "__main__":
    sys.exit(main())
