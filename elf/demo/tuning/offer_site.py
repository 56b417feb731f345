"""One web server with offers: `python -m elf.demo.tuning.offer_site --name shop-0 --directory DIR --shown SHOWN`.

A visitor's page asks for an offer (`POST /offer`), and tells in the same request what became of the last one. The
server deals visits to two slices by a hash of visitor and second, shows each slice the prominence that the job `opo`
says in SHOWN, and everybody else the best one so far. What became of an offer is a line in `events.json`.
"""

import hashlib
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from elf.demo.shop.form_serving import FormAnswer, FormServer, fields_of
from elf.demo.shop.journal import Journal
from elf.demo.shop.serving import Options, run_server
from elf.demo.shop.shown_value import ShownValue

SLICES = ("a", "b")
REST = "rest"
"""Slice of the visits that get the best point so far."""
_DEALT = ("a", "a", "b", "b", REST)


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


def offering(options: Options, journal: Journal) -> FormServer:
    """The server: it answers what became of one offer with the next one."""
    shown = ShownValue(options.shown, "opo.json", applied, NOTHING_SAID)

    def take(form: bytes, cookie: str) -> FormAnswer:
        now_s, now = time.time(), shown.value()
        name = slice_of(cookie.removeprefix("user="), int(now_s))
        offer = {"slice": name, "experiment": now.experiment, "prominence": now.prominence[name]}
        became = _became(form)
        return FormAnswer(offer, None if became is None else _event(now_s, became))

    return FormServer(journal, "/offer", "what became of the last one", take)


def _became(form: bytes) -> dict[str, Any] | None:
    """The visit that a form tells of; None for one that tells of none."""
    try:
        fields = fields_of(form)
        visit = {
            "slice": fields["slice"],
            "experiment": int(fields["experiment"]),
            "prominence": float(fields["prominence"]),
            "value": int(fields["value"]),
        }
    except (ValueError, KeyError):
        return None
    return visit if visit["slice"] in _DEALT and visit["value"] in (0, 1) else None


def _event(now_s: float, visit: dict[str, Any]) -> dict[str, Any]:
    created_at = datetime.fromtimestamp(now_s, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return {"created_at": created_at, **visit}


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line of one server."""
    return run_server("elf.demo.tuning.offer_site", offering, arguments)


if __name__ == "__main__":
    sys.exit(main())
