"""The completeness of a result as one line for people."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING

from elf.terminal.terminal import printable

if TYPE_CHECKING:
    from agent import WindowResult

REASONS_SHOWN = 3
NEXT_STEP = "ask for fewer groups, a shorter time (WHERE time ...), or an estimate such as APPROX_COUNT_DISTINCT"


def not_whole(reasons: Mapping[str, str]) -> str:
    """The error for an answer that agents could not pass on in full, with the next step. `reasons`: by their names."""
    shown = [f"{printable(name)}: {printable(reason)}" for name, reason in islice(reasons.items(), REASONS_SHOWN)]
    more = f"; and {len(reasons) - REASONS_SHOWN} more agents" if len(reasons) > REASONS_SHOWN else ""
    return f"this is not the whole answer ({'; '.join(shown)}{more}); {NEXT_STEP}"


def completeness(result: WindowResult) -> str:
    """Agents, events, and everything missing in a result."""
    parts = [f"{result.contributors} of {result.expected} agents", f"{result.events:,} events"]
    for word, names in (("missing", result.missing), ("in part", result.partial)):
        if names:
            parts[0] += f" ({word} {', '.join(printable(name) for name in names)})"
    parts += [f"{printable(name)}: {printable(reason)}" for name, reason in result.reasons.items()]
    counts = {"late": result.late, "malformed": result.malformed, "coerced": result.coerced}
    parts += [f"{count:,} {name}" for name, count in counts.items() if count]
    if result.dropped:
        parts.append(f"{result.dropped:,} more rows past the limit")
    if not result.final:
        parts.append("still open")
    if result.error is not None:
        parts.append(f"approximate, within {100 * result.error:.2g} %")
    return " · ".join(parts)
