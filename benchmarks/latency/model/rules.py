"""Settings by the model beside rules of thumb: intervals of polls and numbers of cuts that are the same for all jobs
(Table 4, Figure 6i).

All is simulated. Rules have no due looks and one tree; GRACE is the same for all, a quarter of the limit. Sessions,
which the simulation does not have, are windows of a quarter of a second. A rate is sustained if the 0.99 quantile is
within the limit and no agent is overloaded.
"""

from __future__ import annotations

from dataclasses import replace

from benchmarks.overlay.population import progress
from benchmarks.report import Comparison, reaching, throughput
from query.latency import Choices, Setting

from .accuracy import NAME
from .search import fleet
from .sustaining import Workload, geometric_mean

POLLS = (0.01, 0.1, 1.0)
CUTS = (1, 4, 16)
GAIN_MIN = 1.05
CHOICES = Choices((0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0), (False, True), (1, 2, 4, 8, 16), (1, 2, 4))
PLAIN = replace(CHOICES, on_due=(False,), trees=(1,))
"""The knobs of rules: polls and cuts."""
AGENTS = 8
SUSTAINED = "rules, simulated, sustained rate"
SESSIONS, WORDS, WINDOWS = "sessions as windows of 0.25 s", "words in Python", "windows of 150,000 groups"


def workloads(windows: int) -> dict[str, Workload]:
    """Kinds of jobs, as in the paper, with their limits."""
    base = replace(fleet(AGENTS), kinds=((AGENTS, 1_000.0),), locked=False)
    sessions = replace(base, pane=0.25, groups=(4.0, 0.75))
    words = replace(base, insert=(4e-4, 4e-5), groups=(8.0, 0.7))
    rate = 20_000.0
    many = replace(
        base, kinds=((AGENTS, rate),), pane=30.0, groups=(150_000 / (30 * rate) ** 0.7, 0.7), seal=(6e-3, 6e-7)
    )
    many = replace(many, parse=(3e-4, 1e-6), insert=(4e-4, 1e-6), combine=(2e-3, 3e-7), finish=(4e-3, 3e-7))
    return {
        name: Workload(truth, limit, Setting(limit / 4, 0.1, on_due=True), windows)
        for name, truth, limit in ((SESSIONS, sessions, 0.5), (WORDS, words, 1.0), (WINDOWS, many, 3.0))
    }


def rules(*, quick: bool = False) -> list[Comparison]:
    """The largest rates of rules and of what the model chooses."""
    jobs = workloads(120 if quick else 300)
    planned, plain, met = dict[str, float](), dict[str, float](), 0
    by_rule = {name: dict[str, float]() for name in _rules()}
    for name, work in jobs.items():
        chosen = work.best_by_model(work.grid(CHOICES))
        speed = work.largest_speed(chosen)
        planned[name] = work.known.rate * speed
        met += work.run(chosen, 0.9 * speed, seed=2).is_valid if speed else 0
        plain[name] = work.known.rate * work.largest_speed(work.best_by_model(work.grid(PLAIN)))
        progress(f"{name}: {chosen}, {planned[name]:,.0f} events/s; by polls and cuts alone {plain[name]:,.0f}")
        for rule, only in _rules().items():
            by_rule[rule][name] = work.known.rate * max(map(work.largest_speed, work.grid(only)), default=0.0)
    best = max(by_rule, key=lambda rule: geometric_mean(by_rule[rule]))
    unit = "thousand events/s"
    lines = [
        throughput(NAME, f"{SUSTAINED}: {name}", planned[name] / 1000, unit, rule,
                   by_rule[rule][name] / 1000, None)
        for name in jobs
        for rule in by_rule
        if by_rule[rule][name]
    ]  # fmt: skip
    none = sum(not rate for rates in by_rule.values() for rate in rates.values())
    return [
        throughput(NAME, "rules, simulated, geometric mean of sustained rates", geometric_mean(planned) / 1000, unit,
                   f"the best single rule, {best}", geometric_mean(by_rule[best]) / 1000, GAIN_MIN),
        throughput(NAME, "rules, simulated, the same by polls and cuts alone", geometric_mean(plain) / 1000, unit,
                   f"the best single rule, {best}", geometric_mean(by_rule[best]) / 1000, None),
        reaching(NAME, f"rules, simulated, of {len(jobs)} jobs within their limit as planned", met, "jobs", len(jobs)),
        Comparison(NAME, "rules, simulated, pairs of a rule and a job that no rate is within the limit of", none,
                   f"of {len(by_rule) * len(jobs)}"),
        *lines,
    ]  # fmt: skip


def _rules() -> dict[str, Choices]:
    """Rules with the only setting that each allows, if panes are long enough for its cuts."""
    return {
        f"polls {1000 * look:g} ms, {cuts} cuts": replace(PLAIN, looks=(look,), cuts=(cuts,))
        for look in POLLS
        for cuts in CUTS
    }
