"""Describes one job more closely: its tree, and the lines that its code has logged."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from nicegui import ui

from agent.control.messages import LogExcerpt
from elf.client.sync_client import SyncClient
from elf.dashboard.drawing.tables import table
from elf.dashboard.drawing.tree import drawn_tree
from elf.dashboard.sections.parts import scrolled_html
from elf.errors import ElfError
from elf.terminal.terminal import printable

LOG_LINES = 100


class JobDetails:
    """Shows the tree or the log of a job, as it was when it was asked for."""

    def __init__(self, client: SyncClient) -> None:
        self._client = client
        self._note = ui.label("").props("role=status")
        self._content = scrolled_html("Details of a job").classes("elf-wide")

    async def show_tree(self, app: str) -> None:
        await self._show(f"Tree of {app}", lambda: drawn_tree(self._client.tree(app)))

    async def show_log(self, app: str) -> None:
        await self._show(f"Log of {app}", lambda: drawn_log(self._client.log(app, lines=LOG_LINES)))

    async def _show(self, what: str, asked: Callable[[], str]) -> None:
        try:
            self._content.content = await asyncio.to_thread(asked)
            self._note.text = printable(what)
        except ElfError as error:
            self._content.content, self._note.text = "", printable(str(error))


def drawn_log(found: LogExcerpt) -> str:
    """The lines that a job's code has logged, as a table."""
    dropped = f"; {found.dropped:,} earlier lines are not shown" if found.dropped else ""
    rows = [(line.time, line.agent, line.text) for line in found.lines]
    return table(f"Last lines of {found.app}{dropped}", ("Time", "Agent", "Line"), rows)
