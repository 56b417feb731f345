"""A browser's own list to choose from: known to every screen reader, and at home on every phone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape

from nicegui import events, ui

from elf.dashboard.drawing.tables import text

_VALUE = "(e) => emit(e.target.value)"


class Choice:
    """One of some names, or none, "". `changed` is called when another one is selected."""

    def __init__(self, label: str, name: str, changed: Callable[[], None]) -> None:
        self.selected = ""
        self._changed = changed
        self._names: Sequence[str] = ()
        with ui.element("label").props(f"for={name}"):
            ui.label(label)
        self._list = ui.html("", tag="select", sanitize=False).props(f"id={name}").classes("elf-choice")
        self._list.on("change", self._on_change, js_handler=_VALUE)
        self._show()

    def offer(self, names: Sequence[str]) -> None:
        """Offers these; what was selected remains so if it is among them."""
        self._names = names
        self.select(self.selected)

    def select(self, name: object) -> None:
        """Selects a name; nothing where it is not offered."""
        self.selected = name if isinstance(name, str) and name in self._names else ""
        self._show()
        self._changed()

    def _on_change(self, event: events.GenericEventArguments) -> None:
        self.select(event.args)

    def _show(self) -> None:
        self._list.content = "".join(map(self._option, ("", *self._names)))

    def _option(self, name: str) -> str:
        selected = " selected" if name == self.selected else ""
        return f'<option value="{escape(name)}"{selected}>{text(name or "none")}</option>'
