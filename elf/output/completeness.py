"""The completeness of a result as one line for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from elf.terminal.terminal import printable

if TYPE_CHECKING:
    from agent import WindowResult
    from agent.runtime.function.result import UnshownWindows


def completeness(result: WindowResult) -> str:
    """Agents, events, and everything missing in a result."""
    parts = [f"{result.contributors} of {result.expected} agents", f"{result.events:,} events"]
    for word, names in (("missing", result.missing), ("leaped over", result.leaped_over), ("in part", result.partial)):
        if names:
            parts[0] += f" ({word} {', '.join(printable(name) for name in names)})"
    parts += map(_unshown, result.unshown)
    parts += [f"{printable(name)}: {printable(reason)}" for name, reason in result.reasons.items()]
    counts = {"late": result.late, "malformed": result.malformed, "coerced": result.coerced}
    parts += [f"{count:,} {name}" for name, count in counts.items() if count]
    if result.dropped:
        parts.append(f"{result.dropped:,} more rows past the limit")
    counts = {"elements evicted": result.evicted, "events shed": result.shed, "calls failed": result.failed}
    counts |= {"events missed by elements": result.missed}
    parts += [f"{count:,} {name}" for name, count in counts.items() if count]
    if result.lost:
        parts.append(f"the state of {len(result.lost):,} logical nodes lost")
    if not result.final:
        parts.append("still open")
    if result.revision:
        parts.append(
            f"changed {result.revision} times since its end" if result.revision > 1 else "changed since its end"
        )
    if result.error is not None:
        parts.append(f"approximate, within {100 * result.error:.2g} %")
    return " · ".join(parts)


def _unshown(windows: UnshownWindows) -> str:
    """The time without windows, and who lacks there."""
    more = windows.lacking - len(windows.missing)
    names = ", ".join([*map(printable, windows.missing), *([f"{more:,} more"] if more > 0 else [])])
    return f"no window shown from {windows.window_start} to {windows.window_end}, missing {names}"
