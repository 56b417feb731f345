"""What must hold of everything that simulated masters have published."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from simulated_fleet import Server, SimulatedFleet, Window, counts, key_of, published

from agent import PublishedWindow
from agent.runtime.function.result import NAMES_MAX


def check_windows(fleet: SimulatedFleet) -> None:
    """Conservation and honesty of everything published of logs, and of anything each window once in each epoch."""
    for window in fleet.windows:
        if " FROM web " in window.version.text:
            _check(fleet, window)
    times = Counter((window.app, window.epoch, window.pane) for window in fleet.windows)
    assert [one for one, n in times.items() if n > 1] == [], f"seed {fleet.seed}: published twice"


def _check(fleet: SimulatedFleet, window: Window) -> None:
    result, about = window.result, f"seed {fleet.seed}, {window}"
    products, size_ms = counts(window.version.text)
    counted: Counter[str] = Counter()
    for name in window.contributors:
        counted += fleet.servers[name].counted(window.pane, size_ms)
    # Who is partial is counted in some trees, and may be in no sum of events.
    some: Counter[str] = Counter()
    for name in window.partial:
        some += fleet.servers[name].counted(window.pane, size_ms)
    rows = {row["product"]: row["n"] for row in result.rows}
    chosen = {product for product in counted if product in products}
    sure = counted - some
    assert {product for product in sure if product in products} <= rows.keys() <= chosen, about
    assert all(sure[product] <= n <= counted[product] for product, n in rows.items()), about
    assert window.pane % size_ms == 0, about
    assert window.pane >= window.version.starts, about
    assert sure.total() <= result.events <= counted.total(), about
    assert set(result.partial) <= window.partial <= window.contributors, about
    assert len(result.partial) == min(NAMES_MAX, len(window.partial)), about
    missing = window.expected - window.contributors - window.leaped
    assert window.leaped <= window.expected, about
    assert (result.leaped, len(result.leaped_over)) == (len(window.leaped), min(NAMES_MAX, len(window.leaped))), about
    assert set(result.leaped_over) <= window.leaped, about
    assert set(result.missing) <= missing, about
    assert len(result.missing) == min(NAMES_MAX, len(missing)), about
    assert (result.contributors, result.expected) == (len(window.contributors), len(window.expected)), about


def check_followers(
    fleet: SimulatedFleet, name: str, followers: Iterable[Server], *, versions_differ: bool = False
) -> None:
    """Who has followed all the time has every window once, in order, whatever became of masters.

    `versions_differ`: masters on both sides of a cut may have windows of different lengths. Then of each master one
    has all windows from the first to the last that came from it.
    """
    panes = sorted({window.pane for window in fleet.of(name)})
    for server in followers:
        got = published(server, key_of(name))
        assert got == sorted(set(got)), f"seed {fleet.seed}: {server.name} got a window twice"
        if versions_differ:
            _check_gaps(fleet, name, server, set(got))
        else:
            lacking = set(panes) - set(got)
            assert not panes or lacking <= {panes[-1]}, f"seed {fleet.seed}: {server.name} lacks a window"


def _check_gaps(fleet: SimulatedFleet, name: str, server: Server, got: set[int]) -> None:
    came = {bytes(notice.result) for notice in server.notices if isinstance(notice, PublishedWindow)}
    for windows in _by_epoch(fleet, name).values():
        mine = [window.result.to_bytes() in came for window in windows]
        if any(mine):
            between = windows[mine.index(True) : len(mine) - mine[::-1].index(True)]
            assert {window.pane for window in between} <= got, f"seed {fleet.seed}: {server.name} lacks a window"


def _by_epoch(fleet: SimulatedFleet, name: str) -> dict[tuple[int, int, int], list[Window]]:
    found: dict[tuple[int, int, int], list[Window]] = {}
    for window in fleet.of(name):
        found.setdefault(window.epoch, []).append(window)
    return found
