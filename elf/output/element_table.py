"""Draws the processing elements of keyed jobs: one row for each prototype over the fleet, or for each agent's share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

import msgspec

from agent.control.messages import ElementEntry, ElementKey, Elements, ElementState
from elf.output.listing import Cell, Listing
from elf.terminal.terminal import printable

TITLES = ("APP", "ELEMENT", "HOSTS", "NODES", "ELEMENTS", "RATE", "EVENTS", "QUEUE", "EMITTED", "EVICTED", "SHED",
          "LOST", "UNDER-REPLICATED", "NULL KEYS", "FAILED", "MISSED", "LAG", "MEMORY", "GROUPING", "HOT KEYS", "SPLIT",
          "WORKERS EACH", "LONGEST WAIT", "HOTTEST")  # fmt: skip
OPTIONAL = ("QUEUE", "EVICTED", "SHED", "LOST", "UNDER-REPLICATED", "NULL KEYS", "FAILED", "MISSED", "LAG", "GROUPING",
            "HOT KEYS", "SPLIT", "WORKERS EACH", "LONGEST WAIT", "HOTTEST")  # fmt: skip
HOTTEST_MAX = 3
"""Hot keys of an element that its row names."""
COUNTS = ("events", "queue", "emitted", "evicted", "shed", "lost", "under_replicated", "null_keys", "failed", "missed")
HOST_TITLES = ("APP", "ELEMENT", "HOST", *TITLES[3:])
NOTHING = "no job of the fleet has keyed elements, as far as its agents have answered"
STATE_CHARACTERS = 20_000
"""Upper bound on the characters of a state that are printed for people."""


def listed_elements(found: Elements, *, by_host: bool = False) -> Listing:
    """The elements over the fleet; `by_host`: as each agent has them."""
    note = f"{found.silent} agents have not answered" if found.silent else ""
    if by_host:
        rows = [[one.app, one.element, one.agent, one.nodes, *_figures([one])] for one in found.elements]
        return Listing(HOST_TITLES, rows, NOTHING, note, OPTIONAL)
    rows = [_row(app, element, entries) for (app, element), entries in _by_element(found.elements)]
    return Listing(TITLES, rows, NOTHING, note, OPTIONAL)


def _by_element(entries: Iterable[ElementEntry]) -> Iterable[tuple[tuple[str, str], list[ElementEntry]]]:
    """Entries by job and element, in the order in which an agent lists the elements."""
    order: dict[tuple[str, str], list[ElementEntry]] = {}
    for one in entries:
        order.setdefault((one.app, one.element), []).append(one)
    for app, named in groupby(order.items(), lambda item: item[0][0]):
        yield from (((app, element), entries) for (_, element), entries in named)


def _row(app: str, element: str, entries: Sequence[ElementEntry]) -> list[Cell]:
    nodes = [one.nodes for one in entries if one.nodes]
    return [app, element, len(nodes) or len(entries), _span(nodes), *_figures(entries)]


def _span(nodes: Sequence[int]) -> str:
    """Logical nodes a host: one number, or the least and the most.

    >>> _span([340, 342, 342]), _span([1]), _span([])
    ('340–342', '1', '-')
    """
    if not nodes:
        return "-"
    least, most = min(nodes), max(nodes)
    return str(least) if least == most else f"{least}–{most}"


def _figures(entries: Sequence[ElementEntry]) -> list[Cell]:
    lags = [one.lag_s for one in entries if one.lag_s is not None]
    return [
        sum(one.elements for one in entries),
        round(sum(one.events_per_s for one in entries), 1),
        *(sum(getattr(one, name) for one in entries) for name in COUNTS),
        f"{1000 * max(lags):,.0f} ms" if lags else None,
        f"{sum(one.memory_bytes for one in entries) / 2**20:,.1f} MiB",
        *_grouped(entries),
    ]


def _grouped(entries: Sequence[ElementEntry]) -> list[Cell]:
    """The greatest figures of how keys are split: each agent that sends events does it by itself."""
    split = [one for one in entries if one.grouping]
    if not split:
        return [None] * 6
    wait_s = max((wait for one in split for wait in one.waits), default=0.0)
    parts = max(one.mean_parts for one in split)
    return [
        f"{split[0].grouping} over {split[0].workers:,}",
        max(one.hot_keys for one in split),
        max(one.split_keys for one in split),
        round(parts, 1) if parts > 1 else None,
        shown_wait(wait_s),
        shown_hottest(hot for one in split for hot in one.hot),
    ]


def shown_wait(wait_s: float) -> str | None:
    """The time that an event waits at a worker; None for no time."""
    return f"{1000 * wait_s:,.0f} ms" if wait_s else None


def shown_hottest(found: Iterable[ElementKey]) -> str | None:
    """The hottest keys with their shares at the agent where they are hottest; None for no keys."""
    hottest: dict[str, float] = {}
    for hot in found:
        hottest[hot.key] = max(hot.share, hottest.get(hot.key, 0.0))
    named = sorted(hottest.items(), key=lambda item: -item[1])[:HOTTEST_MAX]
    return ", ".join(f"{key} {share:.0%}" for key, share in named) or None


def shown_state(state: ElementState) -> str:
    """The state of one element for people: where it is, then its attributes or rows, one a line."""
    head = f"{state.element}: on {state.agent}, logical node {state.node}, epoch {state.epoch}"
    if state.state is None and state.state_bytes:
        return printable(f"{head}: its state of {state.state_bytes:,} bytes is longer than is shown")
    lines = list(_lines(state.state))
    text = "\n".join([printable(head), *(f"  {printable(line)}" for line in lines)])
    return text if len(text) <= STATE_CHARACTERS else f"{text[:STATE_CHARACTERS]}\n  … --output json shows all of it"


def _lines(state: object) -> Iterable[str]:
    if not isinstance(state, dict):
        yield _json(state)
        return
    for name, value in state.items():
        if isinstance(value, list) and value and all(isinstance(row, dict) for row in value):
            yield f"{name}:"
            yield from (f"  {_json(row)}" for row in value)
        else:
            yield f"{name} = {_json(value)}"


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
