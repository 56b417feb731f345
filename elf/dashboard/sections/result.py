"""The watched job's result, live: who is in it and who is missing, its chart, and its rows."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from nicegui import ui

from elf.dashboard.drawing.chart import chart_options, described
from elf.dashboard.drawing.tables import counted, table
from elf.dashboard.sections.parts import button, scrolled_html, section
from elf.dashboard.watched_job import NewestWindow, WatchedState
from elf.terminal.terminal import printable


class ResultSection:
    """Shows a job as it comes; `stop` stops it."""

    def __init__(self, stop: Callable[[str], Awaitable[None]]) -> None:
        self._stop = stop
        self._app = ""
        with section("Result", "result"):
            self._title = ui.label("Run a query, or follow a job.")
            self._query = ui.label("").classes("elf-text elf-dim")
            with ui.element("div").classes("elf-row"):
                self._button = button("Stop", self._on_stop, is_first=True)
                self._button.set_enabled(False)
            self._completeness = ui.label("").props("role=status")
            self._details = ui.label("").classes("elf-dim")
            self._note = ui.label("").classes("elf-fault").props("role=alert")
            self._chart = ui.echart({}, renderer="svg").classes("elf-chart").props("role=img")
            self._chart.set_visibility(False)
            self._rows = scrolled_html("Rows of the newest window")

    def begin(self, what: str) -> None:
        """Empties the section for another job."""
        self._app = ""
        self._title.text = printable(what)
        self._query.text = self._completeness.text = self._details.text = self._note.text = ""
        self._rows.content = ""
        self._chart.set_visibility(False)
        self._button.set_enabled(False)

    def show(self, seen: WatchedState, *, may_stop: bool) -> None:
        self._app = seen.app
        self._title.text = f"{printable(seen.app)}: {_progress(seen)}" if seen.app else "The query was not taken."
        self._query.text = printable(seen.query)
        self._note.text = printable(seen.ended or seen.note)
        self._button.set_enabled(bool(seen.app) and not seen.ended and may_stop)
        if seen.newest is not None:
            self._show_window(seen.newest)
            self._show_chart(seen)

    def _show_window(self, window: NewestWindow) -> None:
        is_whole = window.contributors == window.expected
        self._completeness.text = complete(window)
        self._completeness.classes(
            add="elf-whole" if is_whole else "elf-partial", remove="elf-partial" if is_whole else "elf-whole"
        )
        self._details.text = window.details
        left = f"; {window.rows_left:,} more rows are not shown" if window.rows_left else ""
        caption = f"{counted(len(window.rows), 'row')}{_span(window)}{left}"
        self._rows.content = table(caption, window.columns, window.rows)

    def _show_chart(self, seen: WatchedState) -> None:
        options = chart_options(seen.points, seen.measure)
        self._chart.set_visibility(bool(options))
        if options:
            self._chart.props["aria-label"] = described(seen.points, seen.measure)
            self._chart.options.clear()
            self._chart.options.update(options)
            self._chart.update()

    async def _on_stop(self) -> None:
        if self._app:
            self._button.set_enabled(False)
            await self._stop(self._app)


def complete(window: NewestWindow) -> str:
    """The agents in a window by number, and the missing ones by name."""
    said = f"{window.contributors} of {window.expected} agents"
    if window.missing:
        said += f" · missing {', '.join(map(printable, window.missing))}"
    return said


def _progress(seen: WatchedState) -> str:
    parts = [counted(seen.windows, "window")]
    if seen.acknowledged is not None:
        parts.append(f"{seen.acknowledged.agents} of {seen.acknowledged.expected} agents run it")
    return ", ".join(parts)


def _span(window: NewestWindow) -> str:
    if window.start is None and window.end is None:
        return ""
    return f", {window.start or '…'} to {window.end or '…'}"
