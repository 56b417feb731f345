"""What becomes of one live window beside the same window computed offline: equal, explained, or not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import query
from elf.batch.reconcile.live_results import LiveResult
from elf.batch.reconcile.same_rows import Row, difference
from query.functions.aggregates import AGGREGATES
from query.model.expression import references

Verdict: TypeAlias = Literal["equal", "explained", "unchecked", "unexplained"]
"""Unchecked: nothing but the job itself can compute the window again."""
NAMES_SHOWN = 5
WITHIN = 3.0
"""Estimates may be off on both sides, and in 1 of 100 cases by more than they say: so many times that is still fine."""


@dataclass(frozen=True, slots=True)
class Judged:
    """`difference` is the first one, in words. `excess`: events that are offline alone; lateness may explain them."""

    window: tuple[str, str]
    verdict: Verdict
    reasons: tuple[str, ...] = ()
    difference: str | None = None
    live: LiveResult | None = None
    offline: LiveResult | None = None
    excess: int = 0


class ArchivedSpan(NamedTuple):
    """From when on and up to when (epoch ms) an agent's events are archived, and how many lines were deleted before."""

    from_ms: int
    to_ms: int
    lost: int = 0


NOTHING = ArchivedSpan(2**63 - 1, 0)


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What may explain a difference. `agents`: who is in the live window. `archived`: who has an archive, of when.
    `least`: the window without those who are partial in it.
    """

    agents: frozenset[str]
    archived: Mapping[str, ArchivedSpan]
    least: LiveResult | None
    roster_is_known: bool
    approximate: Mapping[str, float | None]


def judge(live: LiveResult, offline: LiveResult | None, about: Circumstances) -> Judged:
    """Compares a live window with the offline one of the same agents; None: there are no events for it."""
    found = _difference(live, offline)
    if found is None:
        reasons = [f"missing: {_names(live.absent)}; equal without them"] if live.absent else []
        return Judged(live.window, "explained" if reasons else "equal", tuple(reasons), None, live, offline)
    reasons = [*_of_events(live, offline, about), *_of_values(live, offline, about)]
    excess = _events(offline) - live.events
    verdict: Verdict = "explained" if reasons else "unexplained"
    return Judged(live.window, verdict, tuple(reasons), found, live, offline, 0 if reasons else max(0, excess))


def _difference(live: LiveResult, offline: LiveResult | None) -> str | None:
    if live.events != _events(offline):
        return f"{live.events:,} events live, {_events(offline):,} offline"
    if offline is None:
        return None if len(live.rows) <= 1 else f"{len(live.rows):,} rows live of no events"
    if live.rows_cut:
        found = difference(live.rows, offline.rows[: len(live.rows)])
    else:
        found = difference(live.rows, offline.rows)
    if found is None and (live.other is None) != (offline.other is None):
        found = "groups beyond the limit on one side alone"
    return found


def _events(result: LiveResult | None) -> int:
    return 0 if result is None else result.events


def _of_events(live: LiveResult, offline: LiveResult | None, about: Circumstances) -> Iterable[str]:
    """Why other events were counted."""
    counted = _events(offline)
    if counted < live.events:
        if strangers := about.agents - about.archived.keys():
            yield f"no archive of: {_names(strangers)}"
        if not about.roster_is_known and len(about.archived.keys() - live.absent) < live.contributors:
            yield f"{live.contributors:,} agents are in it, {len(about.archived):,} have an archive"
        yield from _of_archives(live, live.events - counted, about)
    if counted > live.events:
        if not about.roster_is_known and len(about.archived.keys() - live.absent) > live.contributors:
            yield f"{live.contributors:,} agents are in it, which of the {len(about.archived):,} archived is not said"
        if live.dropped - (0 if offline is None else offline.dropped) >= counted - live.events:
            yield f"dropped: {live.dropped:,}"
        if live.leaped:
            yield f"leaped: {live.leaped:,}"
    if live.incomplete and _events(about.least) <= live.events <= counted:
        yield f"in it with a part of their events: {_names(live.incomplete)}"


def _of_archives(live: LiveResult, lacking: int, about: Circumstances) -> Iterable[str]:
    """Why the archives lack events."""
    spans = {one: about.archived[one] for one in about.agents & about.archived.keys()}
    if behind := [one for one, span in spans.items() if span.to_ms < (live.end_ms or 0)]:
        yield f"not archived up to its end yet: {_names(behind)}"
    if after := [one for one, span in spans.items() if live.start_ms is not None and span.from_ms > live.start_ms]:
        yield f"not archived from its start on: {_names(after)}"
    if sum(span.lost for span in spans.values()) >= lacking:
        yield f"lines were deleted before they were archived: {_names(one for one in spans if spans[one].lost)}"


def _of_values(live: LiveResult, offline: LiveResult | None, about: Circumstances) -> Iterable[str]:
    """Why the same events gave other values."""
    if offline is None or offline.events != live.events:
        return
    if about.approximate and _are_near(live.rows, offline.rows, about.approximate):
        yield f"approximate: within {live.error or 0:.2g}"
    if live.other is not None and offline.other is not None:
        yield "more groups than are kept: which are, depends on who came first"
    if live.limited:
        yield f"met their limit: {', '.join(sorted(live.limited))}"


def _are_near(live: list[Row], offline: list[Row], approximate: Mapping[str, float | None]) -> bool:
    """Whether all that is exact is equal, and estimates of counts are as near as they have to be."""
    exact, offline_exact = (
        [{name: row[name] for name in row if name not in approximate} for row in rows] for rows in (live, offline)
    )
    if difference(exact, offline_exact) is not None:
        return False
    for mine, theirs in zip(live, offline, strict=True):
        for name, error in approximate.items():
            if error is not None and difference([{name: mine.get(name)}], [{name: theirs.get(name)}], WITHIN * error):
                return False
    return True


def approximate_columns(plan: query.Plan) -> dict[str, float | None]:
    """The columns of a plan's rows that are estimates: how far counts may be off; None for others."""
    errors: dict[str, float | None] = {}
    for one in plan.aggregates:
        function = AGGREGATES[one.function.upper()]
        if function.error is not None:
            errors[one.name] = function.error(one.parameters) if function.of == "of the count" else None
    if plan.outer is not None:
        return dict.fromkeys(query.output_names(plan)) if errors else approximate_columns(plan.outer)
    found = {output.name: [one.name for one in references(output.expression)] for output in plan.output}
    return {
        name: errors[used[0]] if len(used) == 1 else None
        for name, used in found.items()
        if any(one in errors for one in used)
    }


def _names(names: Iterable[str]) -> str:
    """The first of them, in order."""
    ordered = sorted(names)
    more = len(ordered) - NAMES_SHOWN
    return ", ".join(ordered[:NAMES_SHOWN]) + (f" and {more:,} more" if more > 0 else "")
