"""The reports of reconciliations, each in a frame in which nothing runs."""

from __future__ import annotations

import asyncio
from urllib.parse import quote

from nicegui import ui

from elf.dashboard.drawing.tables import counted
from elf.dashboard.reports import ReportFolder
from elf.dashboard.sections.choice import Choice
from elf.dashboard.sections.parts import section

PATH = "/reports/"


class ReportsSection:
    """Lists a folder's reports; the selected one is shown."""

    def __init__(self, folder: ReportFolder) -> None:
        self._folder = folder
        with section("Reports", "reports"):
            self._count = ui.label("").props("role=status").classes("elf-dim")
            with ui.element("div").classes("elf-row"):
                self._choice = Choice("Report", "elf-report", self._show)
            self._frame = ui.element("iframe").props('sandbox="" title="Report" referrerpolicy=no-referrer tabindex=0')
            self._frame.classes("elf-report").set_visibility(False)

    async def look(self) -> None:
        """Looks at what the folder holds now."""
        names = await asyncio.to_thread(self._folder.names)
        self._count.text = counted(len(names), "report")
        self._choice.offer(names)

    def _show(self) -> None:
        name = self._choice.selected
        self._frame.set_visibility(bool(name))
        if name:
            self._frame.props["src"] = PATH + quote(name)
