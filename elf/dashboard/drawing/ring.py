"""The overlay's ring as SVG: each agent at the place of its id, with a sign of its health that needs no colour."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from elf.dashboard.fleet_watch import SeenAgent
from elf.terminal.terminal import printable

NAMED_MAX = 24
"""Upper bound on agents whose names are written beside them."""
NAME_CHARACTERS = 16
_SIZE = 320
_RADIUS = 96
_SYMBOLS = {
    "ok": '<circle class="agent ok" cx="{x:.1f}" cy="{y:.1f}" r="7"/>',
    "leaving": '<rect class="agent leaving" x="{left:.1f}" y="{top:.1f}" width="13" height="13"/>',
    "silent": '<path class="agent silent" d="M{left:.1f} {top:.1f}l13 13m0 -13l-13 13"/>',
}


def ring(agents: Sequence[SeenAgent], asked: str) -> str:
    """The ring, with a text for those who do not see it. `asked`: the agent that this page asks."""
    parts = [
        f'<svg class="ring" viewBox="0 0 {_SIZE} {_SIZE}" role="img" aria-label="{escape(summary(agents))}">',
        f'<circle class="orbit" cx="{_SIZE / 2}" cy="{_SIZE / 2}" r="{_RADIUS}"/>',
    ]
    are_named = len(agents) <= NAMED_MAX
    parts += [_drawn(one, is_named=are_named, is_asked=one.entry.agent == asked) for one in agents]
    parts.append(
        f'<text class="count" x="{_SIZE / 2}" y="{_SIZE / 2 + 6}" text-anchor="middle">{_count(agents)}</text></svg>'
    )
    return "".join(parts)


def summary(agents: Sequence[SeenAgent]) -> str:
    """The ring in words.

    >>> summary([])
    'no agents'
    """
    if not agents:
        return "no agents"
    others = [f"{printable(one.entry.agent)} is {one.health}" for one in agents if one.health != "ok"]
    more = [f"and {len(others) - 8} more"] if len(others) > 8 else []
    return ", ".join([f"{_count(agents)} agents are well", *others[:8], *more])


def _count(agents: Sequence[SeenAgent]) -> str:
    return f"{sum(one.health == 'ok' for one in agents):,} of {len(agents):,}"


def _drawn(one: SeenAgent, *, is_named: bool, is_asked: bool) -> str:
    angle = 2 * math.pi * _turn(one.entry.node_id)
    across, down = math.sin(angle), -math.cos(angle)
    x, y = _SIZE / 2 + _RADIUS * across, _SIZE / 2 + _RADIUS * down
    name = escape(printable(one.entry.agent))
    symbol = _SYMBOLS[one.health].format(x=x, y=y, left=x - 6.5, top=y - 6.5)
    halo = f'<circle class="asked" cx="{x:.1f}" cy="{y:.1f}" r="11"/>' if is_asked else ""
    label = ""
    if is_named:
        short = escape(printable(one.entry.agent[:NAME_CHARACTERS]))
        anchor = "middle" if abs(across) < 0.3 else "start" if across > 0 else "end"
        label = f'<text x="{x + 15 * across:.1f}" y="{y + 19 * down + 4:.1f}" text-anchor="{anchor}">{short}</text>'
    return f"<g><title>{name}: {one.health}, {one.entry.events_per_s:,.0f} events/s</title>{halo}{symbol}{label}</g>"


def _turn(node_id: str) -> float:
    """The part of the whole ring that lies before an id.

    >>> _turn("80000000"), _turn("no id")
    (0.5, 0.0)
    """
    try:
        return int(node_id[:8].ljust(8, "0"), 16) / 16**8
    except ValueError:
        return 0.0
