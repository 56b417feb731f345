"""Judges a live window by the same window computed offline: equal, explained, unchecked or unexplained."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import query
from elf.batch.reconcile.live_results import LiveResult
from elf.batch.reconcile.same_rows import Row, difference
from query.functions.aggregates import aggregate_function
from query.model.expression import references

Verdict: TypeAlias = Literal["equal", "explained", "unchecked", "unexplained"]
"""Verdict on a window; unchecked: only the job itself can compute it."""
NAMES_SHOWN = 5
WITHIN = 3.0
"""Factor on the stated error of estimates: both sides may be off, and in 1 of 100 cases by more than stated."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A verdict on one window; `difference` is the first one, in words. `excess`: number of events found only offline,
    which late events may explain.
    """

    window: tuple[str, str]
    verdict: Verdict
    reasons: tuple[str, ...] = ()
    difference: str | None = None
    live: LiveResult | None = None
    offline: LiveResult | None = None
    excess: int = 0


class ArchivedSpan(NamedTuple):
    """Time range (epoch ms) of an agent's archived events, and the number of lines deleted before they were
    archived.
    """

    from_ms: int
    to_ms: int
    lost: int = 0


NOTHING = ArchivedSpan(2**63 - 1, 0)


@dataclass(frozen=True, slots=True)
class Circumstances:
    """Facts that may explain a difference. `agents`: the agents that contributed to the live window. `archived`: the
    time range of each agent's archive. `least`: the window without its partial agents.
    """

    agents: frozenset[str]
    archived: Mapping[str, ArchivedSpan]
    least: LiveResult | None
    roster_is_known: bool
    approximate: Mapping[str, float | None]


def judge(live: LiveResult, offline: LiveResult | None, about: Circumstances) -> Judged:
    """Compares a live window with the offline one of the same agents, which is None where there are no events."""
    found = _difference(live, offline)
    if found is None:
        reasons = [f"missing: {first_names(live.absent)}; equal without them"] if live.absent else []
        return Judged(live.window, "explained" if reasons else "equal", tuple(reasons), None, live, offline)
    reasons = [*_of_events(live, offline, about), *_of_values(live, offline, about), *_of_elements(live)]
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
    """Reasons for different numbers of events."""
    counted = _events(offline)
    if counted < live.events:
        if strangers := about.agents - about.archived.keys():
            yield f"no archive of: {first_names(strangers)}"
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
        yield f"in it with a part of their events: {first_names(live.incomplete)}"


def _of_archives(live: LiveResult, lacking: int, about: Circumstances) -> Iterable[str]:
    """Reasons for events that the archives lack."""
    spans = {one: about.archived[one] for one in about.agents & about.archived.keys()}
    if behind := [one for one, span in spans.items() if span.to_ms < (live.end_ms or 0)]:
        yield f"not archived up to its end yet: {first_names(behind)}"
    if after := [one for one, span in spans.items() if live.start_ms is not None and span.from_ms > live.start_ms]:
        yield f"not archived from its start on: {first_names(after)}"
    if sum(span.lost for span in spans.values()) >= lacking:
        yield f"lines were deleted before they were archived: {first_names(one for one in spans if spans[one].lost)}"


def _of_values(live: LiveResult, offline: LiveResult | None, about: Circumstances) -> Iterable[str]:
    """Reasons for different values from the same events."""
    if offline is None or offline.events != live.events:
        return
    if about.approximate and _are_near(live.rows, offline.rows, about.approximate):
        yield f"approximate: within {live.error or 0:.2g}"
    if live.other is not None and offline.other is not None:
        yield "more groups than are kept: which are, depends on who came first"
    if live.limited:
        yield f"met their limit: {', '.join(sorted(live.limited))}"


def _of_elements(live: LiveResult) -> Iterable[str]:
    """Reasons in what the job's elements have given up by then."""
    if live.lost:
        yield f"logical nodes begun anew: {len(live.lost):,}"
    if live.evicted:
        yield f"elements evicted: {live.evicted:,}"
    if live.missed:
        yield f"events missed by elements: {live.missed:,}"


def _are_near(live: list[Row], offline: list[Row], approximate: Mapping[str, float | None]) -> bool:
    """Whether exact values are equal, and estimates of counts within their error."""
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
    """The estimated columns of a plan's rows, with the relative error of counts; None for other estimates."""
    errors: dict[str, float | None] = {}
    for one in plan.aggregates:
        function = aggregate_function(one.function.upper())
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


def first_names(names: Iterable[str]) -> str:
    """The first names in order, and the number of the others."""
    ordered = sorted(names)
    more = len(ordered) - NAMES_SHOWN
    return ", ".join(ordered[:NAMES_SHOWN]) + (f" and {more:,} more" if more > 0 else "")
