"""The fleet's jobs, and what can be done with one of them."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

from nicegui import events, ui

from agent.access.owners import shown_owner
from agent.control.messages import JobEntry
from elf.client.sync_client import SyncClient
from elf.dashboard.drawing.tables import counted, duration, table
from elf.dashboard.fleet_watch import FleetLook
from elf.dashboard.sections.choice import Choice
from elf.dashboard.sections.details import JobDetails
from elf.dashboard.sections.parts import button, scrolled_html, section
from elf.output.job_lag import lag_s

TITLES = ("Job", "Stream", "Events/s", "Lag", "Complete", "Agents", "Version", "Master", "Owner", "Query")
QUERY_CHARACTERS = 160
_KEY_OF_ROW = "(e) => { const row = e.target.closest('tr[data-key]'); if (row) emit(row.dataset.key); }"


class JobsSection:
    """Lists jobs; one is selected, to be followed or stopped."""

    def __init__(
        self, client: SyncClient, follow: Callable[[str], None], stop: Callable[[str], Awaitable[None]]
    ) -> None:
        self._look = FleetLook()
        self._follow = follow
        self._stop = stop
        with section("Jobs", "jobs"):
            with ui.element("div").classes("elf-row"):
                self._choice = Choice("Job", "elf-job", self._allow)
                self._follow_button = button("Follow", self._on_follow)
                self._tree_button = button("Tree", self._on_tree)
                self._log_button = button("Log", self._on_log)
                self._stop_button = button("Stop job", self._on_stop)
            self._note = ui.label("").props("role=status").classes("elf-dim")
            self._table = scrolled_html("Jobs")
            self._table.classes("elf-wide")
            self._details = JobDetails(client)
            self._table.on("click", self._on_row, js_handler=_KEY_OF_ROW)
        self._allow()

    def show(self, look: FleetLook) -> None:
        self._look = look
        names = [job.app for job in look.jobs]
        self._choice.offer(names)
        left = f"; {look.jobs_left:,} more are not shown" if look.jobs_left else ""
        self._note.text = f"{counted(len(look.jobs), 'job')}{left}"
        rows = [_row(job, look.rates.get(job.app_id)) for job in look.jobs]
        self._table.content = table("Jobs", TITLES, rows, keys=names) if rows else ""
        self._allow()

    def _on_row(self, event: events.GenericEventArguments) -> None:
        self._choice.select(event.args)

    def _on_follow(self) -> None:
        if self._choice.selected:
            self._follow(self._choice.selected)

    async def _on_tree(self) -> None:
        if self._choice.selected:
            await self._details.show_tree(self._choice.selected)

    async def _on_log(self) -> None:
        if self._choice.selected:
            await self._details.show_log(self._choice.selected)

    async def _on_stop(self) -> None:
        if self._choice.selected:
            await self._stop(self._choice.selected)

    def _allow(self) -> None:
        job = next((job for job in self._look.jobs if job.app == self._choice.selected), None)
        for one in (self._follow_button, self._tree_button, self._log_button):
            one.set_enabled(job is not None)
        self._stop_button.set_enabled(job is not None and self._look.may_stop(job))


def _row(job: JobEntry, rate: float | None) -> list[object]:
    query = " ".join(job.query.split())
    query = query if len(query) <= QUERY_CHARACTERS else f"{query[: QUERY_CHARACTERS - 1]}…"
    lag = duration(lag_s(job, time.time()))
    complete = None if job.contributors is None else f"{job.contributors} of {job.expected}"
    return [
        job.app, job.stream, None if rate is None else f"{rate:,.1f}", lag, complete, f"{job.agents} of {job.expected}",
        job.version, job.master, shown_owner(job.owner), query,
    ]  # fmt: skip
