"""Predicts how soon the results of a query come in a fleet, for EXPLAIN LATENCY, and shows it.

What is known comes from the fleet: how many agents have the stream, where jobs over it run how long each phase takes in
them, and where none computes the same what the query's work costs some agents, over the last lines of their logs. The
rest is assumed, widely, and marked so.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec
from rich.console import Group
from rich.table import Table
from rich.text import Text

import query
from agent.control.latency.measurements import choices_of, is_same_work, likest, percent_of, setting_of
from agent.control.latency.samples import known_with_samples, late_share, lateness
from agent.control.messages import DryRuns, JobLatency
from agent.programs.calls import JobDescription
from elf.client.errors import ClientError
from elf.client.sync_client import SyncClient
from elf.errors import UsageError
from elf.output.measures import plan_for_any_columns
from elf.terminal.console import open_console
from elf.terminal.terminal import printable
from query.latency import (
    LatencyRefusal,
    Measured,
    PhaseStatistics,
    Prediction,
    Setting,
    largest_rate,
    plan,
    predict,
)

DEFAULT_PERCENT = 99.0
"""Percentage of results that a prediction is of where the query states none."""


class PhasePrediction(msgspec.Struct, frozen=True):
    """A phase: its mean and quantile (ms), the part of the whole quantile that is due to it (ms), and how well it is
    known: measured, sampled or assumed."""

    phase: str
    mean_ms: float | None
    quantile_ms: float | None
    part_ms: float | None
    evidence: str


class Knob(msgspec.Struct, frozen=True):
    """A knob: its value as the query runs, and that of the cheapest setting within the limit; "" if there is none."""

    knob: str
    now: str
    best: str


class LatencyExplanation(msgspec.Struct, frozen=True):
    """A prediction of how soon a query's results come, for a percentage of them. Times are ms, None without an end.

    `limit_ms`: what WITHIN states, None without it. `known_from`: the job whose measurements it is made of; "" for
    none. `sampled`: the agents that have run the query over the last lines of their logs, `sampled_lines` in all, and
    `doubts` why their rates are not believed, or not known, each with the number of agents. `clipped`: numbers of
    agents that cannot be. `late_share`: that of events that come after the grace, None where it is not known.
    `largest_rate`: events a second up to which the limit holds, None for more than can be said or without limit.
    `doubled_ms`: the quantile at twice the rate. `verdict`: whether the limit can be met, in words.
    """

    query: str
    limit_ms: int | None
    percent: float
    agents: int
    events_s: float
    known_from: str
    sampled: int
    sampled_lines: int
    doubts: dict[str, int]
    clipped: int
    late_share: float | None
    evidence: str
    mean_ms: float | None
    quantile_ms: float | None
    binding: str
    doubled_ms: float | None
    largest_rate: float | None
    phases: list[PhasePrediction]
    knobs: list[Knob]
    verdict: str


def explained_latency(
    client: SyncClient,
    text: str,
    aggregates: Mapping[str, str] | None = None,
    *,
    is_run_dry: bool = True,
    is_mapped: bool = False,
) -> LatencyExplanation:
    """The explanation of a query, by what the fleet knows now. Raises UsageError for one that is not live, or that no
    agent would take, and ClientError. `aggregates`: those of a job's own. `is_run_dry`: agents may run it over logs.
    `is_mapped`: the job's code maps events."""
    try:
        parsed = query.with_aggregates(query.parse(text), aggregates or {})
        found = plan_for_any_columns(parsed).plan
    except query.QueryError as error:
        raise UsageError(str(error)) from None
    if found.windowing is None:
        raise UsageError("EXPLAIN LATENCY is of live queries: add windows, as in WINDOWING 1 MINUTE")
    shown = query.format_query(parsed)
    told = _measured_job(client, parsed, found.streams_read)
    if found.app is not None and told is None:
        raise UsageError("no live job reads this one's results yet: EXPLAIN LATENCY is of queries over streams")
    is_same = told is not None and is_same_work(parsed, told.query)
    dry = _dry_runs(client, text) if is_run_dry else None
    agents = told.contributors if told is not None else 0
    agents = agents or (dry.agents if dry is not None else client.survey(found.streams_read).agents)
    if not agents:
        raise UsageError(
            f"no agent has the stream {found.streams_read}: elf status and SHOW STREAMS list what is there"
        )
    samples = (
        [] if dry is None else dry.samples
    )  # where the same is measured, of them only what they tell of late lines
    measured = known_with_samples(found, told, agents, samples, is_same=is_same)
    return explanation(shown, found, measured, told, dry, is_same=is_same, is_mapped=is_mapped)


def _dry_runs(client: SyncClient, text: str) -> DryRuns | None:
    """The dry runs of a query; None where there are none, as of joins, or with an agent of the release before."""
    try:
        return client.run_dry(text)
    except ClientError:
        return None


def _measured_job(client: SyncClient, wanted: query.Query, stream: str) -> JobLatency | None:
    """The measurements of a job that reads the stream: of one that computes the same, or another one."""
    live = [job for job in client.jobs() if job.stream == stream and not job.bounded]
    for job in likest(live, lambda job: job.query, wanted):
        try:
            told = client.latency(job.full_name)
        except ClientError:
            continue
        if told.results:
            return told
    return None


def explanation(
    text: str,
    found: query.Plan,
    measured: Measured,
    told: JobLatency | None = None,
    dry: DryRuns | None = None,
    *,
    is_same: bool = False,
    is_mapped: bool = False,
) -> LatencyExplanation:
    """The explanation of a query of this text, by what is known of it. `is_same`: what is told is of the same query."""
    within, samples = found.within, [] if dry is None else dry.samples
    percent = DEFAULT_PERCENT if within is None else percent_of(within)
    share, setting, late = percent / 100, setting_of(found), lateness(samples)
    now = predict(setting, measured, share)
    limit_s = None if within is None else within.limit_ms / 1000
    most = None if limit_s is None else largest_rate(setting, measured, limit_s, share)
    best, verdict = None, ""
    if within is not None:
        choices = choices_of(found, told if is_same else None, is_mapped=is_mapped)
        chosen = plan(within.limit_ms, percent, measured, choices=choices)
        if isinstance(chosen, LatencyRefusal):
            verdict = f"out of reach: {chosen.reason}"
        else:
            best, verdict = chosen.setting, chosen.warning or "can be met, with room for half as many events again"
    return LatencyExplanation(
        text,
        None if within is None else within.limit_ms,
        percent,
        sum(one.agents for one in measured.classes),
        measured.rate,
        "" if told is None else told.app,
        len(samples),
        sum(one.lines for one in samples),
        _doubts(dry),
        0 if dry is None else dry.clipped,
        late_share(late, measured.setting.grace),
        now.evidence.label,
        _ms(now.mean),
        _ms(now.quantile),
        now.binding.label,
        _ms(predict(setting, measured, share, 2 * measured.rate).quantile),
        most if most is None or math.isfinite(most) else None,
        list(_phases(now)),
        list(_knobs(setting, best, late)),
        verdict,
    )


def _doubts(dry: DryRuns | None) -> dict[str, int]:
    if dry is None:
        return {}
    without = {"not run": len(dry.refused), "no answer": dry.unanswered}
    doubts = Counter(one.doubt for one in dry.samples if one.doubt)
    return dict(doubts) | {why: agents for why, agents in without.items() if agents}


def _phases(now: Prediction) -> Iterable[PhasePrediction]:
    for phase, one in now.phases.items():
        yield PhasePrediction(phase.label, _ms(one.mean), _ms(one.quantile), _ms(one.part), one.evidence.label)


def _knobs(now: Setting, best: Setting | None, late: PhaseStatistics) -> Iterable[Knob]:
    def of(one: Setting) -> Mapping[str, str]:
        looks = f"each {1000 * one.look:g} ms" + (", and when a pane is due" if one.on_due else "")
        left_out = late_share(late, one.grace)
        grace = f"{1000 * one.grace:g} ms" + ("" if left_out is None else f", {100 * left_out:.2g} % come later")
        return {"grace": grace, "looks at files": looks, "cuts": str(one.cuts), "trees": str(one.trees)}

    chosen = {} if best is None else of(best)
    return [Knob(name, value, chosen.get(name, "")) for name, value in of(now).items()]


def print_latency_explanation(client: SyncClient, text: str, output: str) -> None:
    """Prints the explanation of a query. Raises UsageError, ClientError."""
    if output not in ("table", "json"):
        raise UsageError("EXPLAIN LATENCY prints a table or, with --output json, an object: there is no other")
    _print(explained_latency(client, text), output)


def print_job_latency_explanation(client: SyncClient, about: JobDescription, output: str) -> None:
    """Prints the explanation of the query of a job written in Python, whose code is not run for it. Raises UsageError,
    ClientError."""
    if about.elements is not None or about.drives:
        raise UsageError(
            f"{printable(about.app)}: how soon results come is predicted of queries over streams, not of elements, nor"
            " of code that cuts its own batches"
        )
    has_code = about.maps or bool(about.aggregates)
    explained = explained_latency(client, about.query, about.aggregates, is_run_dry=not has_code, is_mapped=about.maps)
    _print(explained, output)


def _print(explained: LatencyExplanation, output: str) -> None:
    if output == "json":
        print(msgspec.json.encode(explained).decode())
        return
    open_console(sys.stdout).print(_shown(explained))


def _shown(explained: LatencyExplanation) -> Group:
    about = Table(box=None, show_header=False, pad_edge=False)
    about.add_column(style="bold", no_wrap=True)
    about.add_column(overflow="fold")
    known = "; ".join(_sources(explained))
    limit = "none is stated" if explained.limit_ms is None else f"{explained.limit_ms:,} ms"
    for title, value in (
        ("query", explained.query),
        ("agents", f"{explained.agents:,}, {explained.events_s:,.0f} events a second in all; {known}"),
        ("limit", f"{limit}, for {explained.percent:g} % of results"),
        ("predicted", f"{_shown_ms(explained.mean_ms)} on average, {_shown_ms(explained.quantile_ms)} for "
         f"{explained.percent:g} %; mostly {explained.binding}; {explained.evidence}"),
        *([("late events", f"{100 * explained.late_share:.2g} % come after GRACE")]
          if explained.late_share is not None else []),
        ("twice the rate", _shown_ms(explained.doubled_ms)),
        *([("largest rate", "no bound is in sight" if explained.largest_rate is None else
            f"{explained.largest_rate:,.0f} events a second")] if explained.limit_ms is not None else []),
        *([("verdict", explained.verdict)] if explained.verdict else []),
    ):  # fmt: skip
        about.add_row(title, Text(value))
    return Group(about, "", _phase_table(explained), "", _knob_table(explained))


def _sources(explained: LatencyExplanation) -> Iterable[str]:
    """The sources of what is known, and what is wrong with them."""
    if explained.known_from:
        yield f"measured by {printable(explained.known_from)}"
    if explained.sampled:
        yield f"sampled in the logs of {explained.sampled:,}, {explained.sampled_lines:,} lines"
    if not explained.known_from and not explained.sampled:
        yield "no live job reads the stream yet, and no log was sampled"
    if not explained.events_s:
        yield "no rate is known"
    for doubt, agents in explained.doubts.items():
        yield f"{printable(doubt)} at {agents:,}"
    if explained.clipped:
        yield f"{explained.clipped:,} numbers cannot be"


def _phase_table(explained: LatencyExplanation) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("PHASE")
    for title in ("MEAN", f"{explained.percent:g} %", "PART"):
        table.add_column(title, justify="right")
    table.add_column("KNOWN")
    for one in explained.phases:
        table.add_row(one.phase, *map(_shown_ms, (one.mean_ms, one.quantile_ms, one.part_ms)), one.evidence)
    return table


def _knob_table(explained: LatencyExplanation) -> Table:
    table = Table(box=None, pad_edge=False)
    for title in ("KNOB", "AS IT RUNS", "CHEAPEST WITHIN THE LIMIT"):
        table.add_column(title)
    for one in explained.knobs:
        table.add_row(one.knob, one.now, one.best or "-")
    return table


def _ms(seconds: float) -> float | None:
    return round(1000 * seconds, 2) if math.isfinite(seconds) else None


def _shown_ms(value: float | None) -> str:
    return "no end" if value is None else f"{value:,.1f} ms" if value < 100 else f"{value:,.0f} ms"
