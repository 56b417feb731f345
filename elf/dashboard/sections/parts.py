"""Parts that sections share: a labelled region, and a table that can be scrolled by keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from nicegui import ui


@contextmanager
def section(title: str, name: str) -> Iterator[None]:
    """A landmark with a heading; `name` is the start of its ids."""
    with ui.element("section").classes("elf-card").props(f"id={name} aria-labelledby={name}-title"):
        heading(title, 2, f"{name}-title")
        yield


def heading(title: str, level: int, name: str) -> None:
    element = ui.element(f"h{level}").props(f"id={name}")
    with element:
        ui.label(title)


def button(text: str, pressed: Callable[[], object], *, is_first: bool = False) -> ui.button:
    """A button in the page's own colours; `is_first`: what people mostly want."""
    made = ui.button(text, on_click=pressed, color=None).props("unelevated dense padding='xs md'").classes("elf-button")
    return made.classes("elf-first") if is_first else made


def scrolled_html(label: str) -> ui.html:
    """An empty part for HTML, which may be larger than the page shows."""
    with ui.element("div").classes("elf-scroll").props("tabindex=0 role=region") as region:
        region.props["aria-label"] = label
        return ui.html("")
