"""The fleet's jobs, and what can be done with one of them."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from datetime import datetime

from nicegui import events, ui

from agent.access.owners import shown_owner
from agent.control.messages import JobEntry
from elf.client.sync_client import SyncClient
from elf.dashboard.drawing.tables import counted, duration, table
from elf.dashboard.fleet_watch import FleetLook
from elf.dashboard.sections.details import JobDetails
from elf.dashboard.sections.parts import button, scrolled_html, section

TITLES = ("Job", "Stream", "Agents", "Lag", "Version", "Master", "Owner", "Query")
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
                self._select = ui.select([], label="Job", on_change=self._allow).props("outlined dense for=elf-job")
                self._select.style("min-width: 12rem")
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

    @property
    def selected(self) -> str | None:
        """The name of the selected job."""
        value: str | None = self._select.value
        return value

    def show(self, look: FleetLook) -> None:
        self._look = look
        names = [job.app for job in look.jobs]
        if names != self._select.options:
            self._select.set_options(names, value=self.selected if self.selected in names else None)
        left = f"; {look.jobs_left:,} more are not shown" if look.jobs_left else ""
        self._note.text = f"{counted(len(look.jobs), 'job')}{left}"
        self._table.content = table("Jobs", TITLES, map(_row, look.jobs), keys=names) if look.jobs else ""
        self._allow()

    def select(self, app: str) -> None:
        """Selects a job, if it is there."""
        if app in self._select.options:
            self._select.value = app

    def _on_row(self, event: events.GenericEventArguments) -> None:
        if isinstance(event.args, str):
            self.select(event.args)

    def _on_follow(self) -> None:
        if self.selected is not None:
            self._follow(self.selected)

    async def _on_tree(self) -> None:
        if self.selected is not None:
            await self._details.show_tree(self.selected)

    async def _on_log(self) -> None:
        if self.selected is not None:
            await self._details.show_log(self.selected)

    async def _on_stop(self) -> None:
        if self.selected is not None:
            await self._stop(self.selected)

    def _allow(self) -> None:
        job = next((job for job in self._look.jobs if job.app == self.selected), None)
        for one in (self._follow_button, self._tree_button, self._log_button):
            one.set_enabled(job is not None)
        self._stop_button.set_enabled(job is not None and self._look.may_stop(job))


def _row(job: JobEntry) -> list[object]:
    query = " ".join(job.query.split())
    query = query if len(query) <= QUERY_CHARACTERS else f"{query[: QUERY_CHARACTERS - 1]}…"
    agents = f"{job.agents} of {job.expected}"
    lag = duration(lag_s(job, time.time()))
    return [job.app, job.stream, agents, lag, job.version, job.master, shown_owner(job.owner), query]


def lag_s(job: JobEntry, now_s: float) -> float | None:
    """Time since the end of the job's last window; None of a job that ends, or has no window out."""
    if job.frontier is None or job.bounded:
        return None
    try:
        return max(0.0, now_s - datetime.fromisoformat(job.frontier).timestamp())
    except ValueError:
        return None
