"""The editor for queries: their errors at the place, EXPLAIN, and running them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass

from nicegui import ui

from elf.dashboard.drawing.tables import definitions
from elf.dashboard.fleet_watch import FleetLook
from elf.dashboard.query_completion import QueryCompletion
from elf.dashboard.sections.parts import button, section
from elf.dashboard.sections.suggestions import Suggestions
from elf.errors import ElfError, UsageError
from elf.statements.statements import ExplainStatement, SelectStatement, read_statement
from elf.terminal.terminal import printable

QUERY_CHARACTERS_MAX = 65_536
_PLACE = re.compile(r"line (\d+), column (\d+)")
_SELECT_PLACE = """
const box = document.getElementById('elf-query');
if (box) {{ box.focus(); box.setSelectionRange({start}, {end}); }}
"""


@dataclass(frozen=True, slots=True)
class QueryToRun:
    """A query as the person wants it. `app`: its name, None for one that is made up."""

    text: str
    app: str | None
    once: bool
    detach: bool


class QuerySection:
    """Edits one query at a time; `run` starts it."""

    def __init__(self, run: Callable[[QueryToRun], None], completion: QueryCompletion) -> None:
        self._start = run
        self._checked = ""
        with section("Query", "query"):
            self._text = (
                ui.textarea("Query in ELF QL")
                .classes("elf-query")
                .props(f"outlined autogrow spellcheck=false for=elf-query maxlength={QUERY_CHARACTERS_MAX}")
                .style("width: 100%")
                .on("keydown.ctrl.enter", self._on_run)
            )
            self._suggestions = Suggestions(self._text, completion, QUERY_CHARACTERS_MAX)
            self._fault = ui.label("").classes("elf-text elf-column elf-fault").props("role=alert")
            with ui.element("div").classes("elf-row"):
                self._run_button = button("Run", self._on_run, is_first=True).props('aria-keyshortcuts="Control+Enter"')
                button("Explain", self._on_explain)
            with ui.element("div").classes("elf-row"):
                self._app = ui.input("Name (optional)").props("outlined dense for=elf-app maxlength=255")
                self._once = ui.checkbox("Only what the logs hold now")
                self._detach = ui.checkbox("Goes on when this page is closed")
            self._note = ui.label("").classes("elf-dim").props("role=status")
            self._explanation = ui.html("").props("id=explanation")

    def show(self, look: FleetLook) -> None:
        self._run_button.set_enabled(look.may_query)
        who = printable(look.rights.name)
        self._note.text = (
            "" if look.may_query or not look.asked
            else f"You are {who}, and may not run queries here: [[access]] in agent.toml gives that right."
        )  # fmt: skip

    def show_fault(self, message: str) -> None:
        """Shows what is wrong with the query, and selects the place where it says one."""
        self._fault.text = "\n".join(printable(line) for line in message.split("\n"))
        self._fault.props("tabindex=0")  # it scrolls, so keys must reach it
        place = _PLACE.search(message)
        if place:
            start, end = _units(self._checked, int(place[1]), int(place[2]), message.count("^"))
            ui.run_javascript(_SELECT_PLACE.format(start=start, end=end))

    async def _on_run(self) -> None:
        if not self._run_button.enabled:
            return
        text = self._taken()
        try:
            statement = read_statement(text)
        except UsageError as error:
            self.show_fault(str(error))
            return
        match statement:
            case SelectStatement():
                if await self._explained(text) is not None:
                    app = self._app.value.strip() or None
                    self._start(QueryToRun(text, app, bool(self._once.value), bool(self._detach.value)))
            case ExplainStatement(text=query_text, analyze=False):
                await self._explain(query_text)
            case _:
                self.show_fault("this page runs queries, and EXPLAIN: elf shell knows the other statements")

    async def _on_explain(self) -> None:
        await self._explain(self._taken())

    async def _explain(self, text: str) -> None:
        self._explanation.content = await self._explained(text) or ""

    def _taken(self) -> str:
        """The text as it is now, without the `;` that ends it; what was said of an earlier one is taken back."""
        self._fault.text = self._explanation.content = ""
        self._fault.props(remove="tabindex")
        self._suggestions.clear()
        self._checked = (self._text.value or "")[:QUERY_CHARACTERS_MAX].rstrip().removesuffix(";")
        return self._checked

    async def _explained(self, text: str) -> str | None:
        """The plan of a query as HTML; None where it has an error, which is shown."""
        try:
            return await asyncio.to_thread(_explanation, text, once=bool(self._once.value))
        except ElfError as error:
            self.show_fault(str(error))
            return None


def _explanation(text: str, *, once: bool) -> str:
    from agent.control.messages import GROUPS_DEFAULT
    from elf.explain import explained_query  # all of ELF QL, which a page that only looks does not need

    plan = explained_query(text, once=once, max_groups=GROUPS_DEFAULT, beyond_groups="other")
    columns = [f"{name} ({kind})" for name, kind in plan.columns.items()]
    return "<h3>How it would run</h3>" + definitions([
        ("Query", [plan.query]),
        ("Stream", [plan.stream or "the agent's only one"]),
        ("Runs", [plan.runs]),
        ("Columns", [", ".join(columns) or "none by name"]),
        ("Window", [plan.window]),
        ("Rewritten", plan.rules),
        ("At the master", plan.master),
        ("At the partition roots", plan.roots),
        ("Over the network", plan.network),
        ("In the tree", plan.tree),
        ("In the agent", plan.agent),
    ])  # fmt: skip


def _units(text: str, line: int, column: int, length: int) -> tuple[int, int]:
    """A place in a text, from a line and a column that count from 1, in the units in which a browser counts.

    >>> _units("SELECT 1\\n𝄞 FROM", 2, 3, 4)
    (12, 16)
    """
    begin = sum(len(one) + 1 for one in text.split("\n")[: line - 1]) + column - 1
    before, marked = text[:begin], text[begin : begin + max(1, length)]
    start = len(before.encode("utf-16-le")) // 2
    return start, start + len(marked.encode("utf-16-le")) // 2
