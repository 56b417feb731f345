"""Errors shown to a person at a shell: one line that says what is wrong and where."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice

REASONS_SHOWN = 3
NEXT_STEP = "ask for fewer groups, a shorter time (WHERE time ...), or an estimate such as APPROX_COUNT_DISTINCT"


class ElfError(Exception):
    """An error at run time (exit code 1)."""


class UsageError(ElfError):
    """A request that cannot be carried out as written (exit code 2)."""


def not_whole(reasons: Mapping[str, str]) -> str:
    """The error for an answer that agents could not pass on in full, with the next step. `reasons`: by their names."""
    shown = "; ".join(f"{name}: {reason}" for name, reason in islice(reasons.items(), REASONS_SHOWN))
    more = f"; and {len(reasons) - REASONS_SHOWN} more agents" if len(reasons) > REASONS_SHOWN else ""
    return f"this is not the whole answer: {shown}{more}; {NEXT_STEP}"
