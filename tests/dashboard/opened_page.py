"""A page in Chromium, and what its tests look for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fleet_for_pages import Dashboard

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Locator, Page

PATIENCE_MS = 30_000
QUERY = """SELECT product, COUNT(*) AS n FROM web
GROUP BY product
WINDOWING 1 SECOND GRACE 1 SECOND"""


@contextmanager
def opened_page(browser: Browser, served: Dashboard, width: int = 1280, height: int = 900) -> Iterator[Page]:
    """The page behind the printed link; nothing may be loaded from elsewhere, and no script may fail.

    That a report's script is not run is said on the console, and no fault.
    """
    context = browser.new_context(viewport={"width": width, "height": height})
    opened = context.new_page()
    opened.set_default_timeout(PATIENCE_MS)
    faults: list[str] = []
    asked: list[str] = []
    opened.on("pageerror", lambda error: faults.append(str(error)))
    opened.on("console", lambda line: faults.append(line.text) if is_fault(line) else None)
    opened.on("request", lambda request: asked.append(request.url))
    opened.goto(served.link)
    yield opened
    context.close()
    assert faults == []
    origin = served.link.partition("login")[0]
    assert [url for url in asked if not url.startswith((origin, "data:", origin.replace("http", "ws")))] == []


def is_fault(line: ConsoleMessage) -> bool:
    return line.type == "error" and "/reports/" not in line.location["url"] + line.text


def region(page: Page, name: str) -> Locator:
    return page.get_by_role("region", name=name, exact=True)


def button(page: Page, name: str) -> Locator:
    return page.get_by_role("button", name=name, exact=True)
