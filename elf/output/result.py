"""The type of a result of any origin, and its completeness as one line for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from elf.terminal.terminal import printable

if TYPE_CHECKING:
    import agent
    from elf import client

    # Computed here or received: the same fields, rows as columns or as dicts.
    Result: TypeAlias = agent.WindowResult | client.Result


def completeness(result: Result) -> str:
    """Agents, events, and everything missing in a result."""
    parts = [f"{result.contributors} of {result.expected} agents", f"{result.events:,} events"]
    for word, names in (("missing", result.missing), ("in part", result.partial)):
        if names:
            parts[0] += f" ({word} {', '.join(printable(name) for name in names)})"
    counts = {"late": result.late, "malformed": result.malformed, "coerced": result.coerced}
    parts += [f"{count:,} {name}" for name, count in counts.items() if count]
    if result.dropped:
        parts.append(f"{result.dropped:,} more rows past the limit")
    if not result.final:
        parts.append("still open")
    if result.error is not None:
        parts.append(f"approximate, within {100 * result.error:.2g} %")
    return " · ".join(parts)
