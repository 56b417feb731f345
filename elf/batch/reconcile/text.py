"""Prints verdicts for people on a terminal and for programs."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec

from elf.batch.reconcile.verdicts import Judged, Verdict
from elf.output.listing import Listing, print_listing

VERDICTS: tuple[Verdict, ...] = ("equal", "explained", "unchecked", "unexplained")


def print_judged(app: str, judged: Sequence[Judged], output: str) -> None:
    """Prints a line for each window: a table, or JSON."""
    if output == "json":
        for one in judged:
            sys.stdout.write(msgspec.json.encode(as_json(app, one)).decode() + "\n")
        sys.stdout.flush()
        return
    titles = ["WINDOW", "VERSION", "VERDICT", "LIVE", "OFFLINE", "WHY"]
    rows = [
        [
            one.window[0] or one.window[1] or "…",
            None if one.live is None else one.live.version,
            one.verdict,
            None if one.live is None else one.live.events,
            None if one.offline is None else one.offline.events,
            why(one) or None,
        ]
        for one in judged
    ]
    print_listing(Listing(titles, rows, "no window was published", summary(judged)), output)


def as_json(app: str, one: Judged) -> dict[str, Any]:
    """A window's verdict with the numbers behind it."""
    live, offline = one.live, one.offline
    return {
        "app": app,
        "window_start": one.window[0] or None,
        "window_end": one.window[1] or None,
        "version": None if live is None else live.version,
        "epoch": None if live is None else live.epoch,
        "verdict": one.verdict,
        "reasons": list(one.reasons),
        "difference": one.difference,
        "live_events": None if live is None else live.events,
        "offline_events": None if offline is None else offline.events,
        "contributors": None if live is None else live.contributors,
        "expected": None if live is None else live.expected,
    }


def why(one: Judged) -> str:
    """The explanations, and the first difference."""
    return "; ".join([*one.reasons, *([one.difference] if one.difference is not None else [])])


def window_text(one: Judged) -> str:
    """Start and end of the window."""
    return f"{one.window[0] or '…'} … {one.window[1] or '…'}"


def summary(judged: Sequence[Judged]) -> str:
    """Number of windows by verdict, in words."""
    counts = Counter(one.verdict for one in judged)
    total = f"{len(judged):,} {'window' if len(judged) == 1 else 'windows'}"
    return f"{total}: " + ", ".join(f"{counts[verdict]:,} {verdict}" for verdict in VERDICTS if counts[verdict])
