"""Shows what could stand at the editor's cursor, as buttons that keys reach."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from functools import partial

from nicegui import events, ui

from elf.dashboard.drawing.tables import counted
from elf.dashboard.query_completion import QueryCompletion, Suggestion
from elf.dashboard.sections.parts import button

KEYS_EVERY_S = 0.2
TEXT_AND_CURSOR = """(e) => {
    const types = e.key.length === 1 || e.key === 'Backspace' || e.key === 'Unidentified';
    if (types && !e.ctrlKey && !e.metaKey) emit(e.target.value, e.target.selectionStart);
}"""
_FOCUS_FIRST = "document.querySelector('#suggestions button')?.focus()"
_INSERT = """
const box = document.getElementById('elf-query');
box.focus();
box.setRangeText({text}, Math.min({start}, box.selectionStart), box.selectionStart, 'end');
box.dispatchEvent(new Event('input'));
"""


class Suggestions:
    """Completes the text of `editor` as it is typed. Control+Space goes to the first suggestion, Enter takes it."""

    def __init__(self, editor: ui.textarea, completion: QueryCompletion, characters_max: int) -> None:
        self._completion = completion
        self._characters_max = characters_max
        self._asked = 0
        self._shown: list[Suggestion] = []
        with ui.element("div").classes("elf-row elf-suggestions").props("id=suggestions role=group") as self._row:
            self._row.props["aria-label"] = "Completions"
        self._count = ui.label("").classes("elf-heard").props("role=status")
        editor.on("keyup", self._on_key, js_handler=TEXT_AND_CURSOR, throttle=KEYS_EVERY_S, leading_events=False)
        editor.on("keydown.ctrl.space.prevent", js_handler=f"() => {{ {_FOCUS_FIRST} }}")

    def clear(self) -> None:
        """Takes them away: the text is complete."""
        self._asked += 1
        self._show([])

    async def _on_key(self, event: events.GenericEventArguments) -> None:
        text, cursor = event.args
        if not isinstance(text, str) or not isinstance(cursor, int) or len(text) > self._characters_max:
            return
        self._asked = asked = self._asked + 1
        found = await asyncio.to_thread(self._completion.suggestions, text, cursor)
        if asked == self._asked:
            self._show(found)

    def _show(self, found: Sequence[Suggestion]) -> None:
        if list(found) == self._shown:
            return  # keys may have gone to one of them
        self._shown = list(found)
        self._row.clear()
        self._count.text = counted(len(found), "completion") if found else ""
        with self._row:
            for one in found:
                button(one.text, partial(self._take, one))

    def _take(self, taken: Suggestion) -> None:
        self.clear()
        ui.run_javascript(_INSERT.format(text=json.dumps(taken.text), start=taken.start))
