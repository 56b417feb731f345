"""The fleet: the ring of agents, and what each of them does."""

from __future__ import annotations

from nicegui import ui

from elf.dashboard.drawing.ring import ring, summary
from elf.dashboard.drawing.tables import duration, table
from elf.dashboard.fleet_watch import FleetLook, SeenAgent
from elf.dashboard.sections.parts import scrolled_html, section
from elf.terminal.terminal import printable

TITLES = ("Agent", "Health", "Events/s", "Malformed", "Lag", "Jobs", "Leads", "Memory", "Up")


class FleetSection:
    """Shows looks at the fleet."""

    def __init__(self) -> None:
        with section("Fleet", "fleet"):
            self._summary = ui.label("Asking the agent …").props("role=status")
            self._fault = ui.label("").classes("elf-fault").props("role=alert")
            self._ring = ui.html("")
            self._table = scrolled_html("Agents")

    def show(self, look: FleetLook) -> None:
        self._fault.text = printable(look.fault)
        if look.asked:
            unknown = f"; {look.unknown} others do not answer" if look.unknown else ""
            left = f"; {look.agents_left:,} more are not shown" if look.agents_left else ""
            self._summary.text = f"{summary(look.agents)}{unknown}{left}"
            self._ring.content = ring(look.agents, look.asked)
            self._table.content = table("Agents, in the order of the ring", TITLES, map(_row, look.agents))


def _row(one: SeenAgent) -> list[object]:
    entry = one.entry
    if one.health == "silent":
        return [entry.agent, "silent", *[None] * (len(TITLES) - 2)]
    memory = f"{entry.memory_bytes / 2**20:,.0f} MiB"
    return [
        entry.agent, one.health, f"{entry.events_per_s:,.0f}", f"{entry.malformed:,}", duration(entry.lag_s),
        entry.jobs, entry.masters, memory, duration(entry.uptime_s),
    ]  # fmt: skip
