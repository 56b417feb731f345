"""One open page: its sections, and the job it watches."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from nicegui import ui

from elf.client.sync_client import SyncClient, SyncJob
from elf.dashboard.fleet_watch import FleetLook, FleetWatch
from elf.dashboard.query_completion import QueryCompletion
from elf.dashboard.reports import ReportFolder
from elf.dashboard.sections.fleet import FleetSection
from elf.dashboard.sections.jobs import JobsSection
from elf.dashboard.sections.parts import button
from elf.dashboard.sections.query import QuerySection, QueryToRun
from elf.dashboard.sections.reports import ReportsSection
from elf.dashboard.sections.result import ResultSection
from elf.dashboard.watched_job import WatchedJob
from elf.errors import ElfError
from elf.output.measures import measures_of
from elf.terminal.terminal import printable

LOOK_EVERY_S = 5.0
RESULT_EVERY_S = 0.5
THEMES: dict[bool | None, tuple[str, bool | None]] = {
    None: ("Theme: as the system", True),
    True: ("Theme: dark", False),
    False: ("Theme: light", None),
}
"""The name of each theme, and the one that comes after it."""


class DashboardPage:
    """Builds the page for one browser and keeps it up to date while that is connected."""

    def __init__(
        self, client: SyncClient, watch: FleetWatch, completion: QueryCompletion, reports: ReportFolder | None
    ) -> None:
        self._client = client
        self._watch = watch
        self._look = FleetLook()
        self._live: WatchedJob | None = None
        self._change = -1
        self._build_header()
        with ui.element("div").classes("elf-page"):
            with ui.element("div"):
                self._query = QuerySection(self._run, completion)
            self._result = ResultSection(self._stop)
            self._fleet = FleetSection()
            self._jobs = JobsSection(client, self._follow, self._stop)
            self._reports = None if reports is None else ReportsSection(reports)
        ui.timer(LOOK_EVERY_S, self._look_around)
        ui.timer(RESULT_EVERY_S, self._show_result)
        ui.context.client.on_delete(self._leave)

    def _build_header(self) -> None:
        dark = ui.dark_mode(None)
        with ui.header().classes("elf-header"):
            with ui.element("h1"):
                ui.label("ELF dashboard")
            self._where = ui.label("").classes("elf-dim")

            def change() -> None:
                dark.value = THEMES[dark.value][1]
                theme.text = THEMES[dark.value][0]

            theme = button(THEMES[None][0], change)

    async def _look_around(self) -> None:
        self._look = look = await self._watch.look()
        if look.asked:
            self._where.text = printable(f"{look.asked} of fleet {look.fleet} · you are {look.rights.name}")
        self._fleet.show(look)
        self._jobs.show(look)
        self._query.show(look)
        if self._reports is not None:
            await self._reports.look()

    def _show_result(self) -> None:
        if self._live is None or (seen := self._live.seen(self._change)) is None:
            return
        is_new = self._change < 0
        self._change = seen.change
        if is_new and not seen.app and seen.ended:
            self._query.show_fault(seen.ended)
        job = next((job for job in self._look.jobs if job.app == seen.app), None)
        self._result.show(seen, may_stop=job is None or self._look.may_stop(job))

    def _run(self, query: QueryToRun) -> None:
        self._watch_job(
            lambda: self._client.query(query.text, app=query.app, once=query.once, detach=query.detach),
            "Submitting the query …",
        )

    def _follow(self, app: str) -> None:
        self._watch_job(lambda: self._client.follow(app, reconnect=True), f"Following {app} …")

    def _watch_job(self, opened: Callable[[], SyncJob], what: str) -> None:
        self._leave()
        self._change = -1
        self._result.begin(what)
        self._live = WatchedJob(opened, measures_of)

    async def _stop(self, app: str) -> None:
        try:
            await asyncio.to_thread(self._client.stop, app)
        except ElfError as error:
            ui.notify(printable(str(error)), type="negative", multi_line=True)
        else:
            ui.notify(printable(f"{app}: stopped"))

    def _leave(self) -> None:
        if self._live is not None:
            self._live.leave()
            self._live = None
