"""The number of states that running jobs merge for their windows, as EXPLAIN ANALYZE says it."""

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.report import Comparison, smaller
from elf.local import LocalOptions, LocalRun, LocalSource

from .cases import CASES, MINUTE_MS, Case

AGGREGATES = {"COUNT": "COUNT(*)", "MAX": "MAX(n)"}
"""Of the first, panes can be taken off windows again; of the second, they cannot."""
BEGIN_MS = 1_699_920_000_000
"""A time at which all windows of all cases begin."""
KEYS = 3


def merged_by_jobs() -> list[Comparison]:
    """A line for each case and aggregate: one job over twice the time, less one over the time alone."""
    return [_line(case, kind) for case in CASES for kind in AGGREGATES]


def _line(case: Case, kind: str) -> Comparison:
    least = case.invertible if kind == "COUNT" else case.others
    merged = _merged(case, kind, 2 * case.hours) - _merged(case, kind, case.hours)
    label = f"states merged in {case.hours} h: {case.name}, {kind}"
    return smaller("enorm", label, merged, "states", "each window of its panes", case.alone, case.alone / least)


def _merged(case: Case, kind: str, hours: int) -> int:
    """The states that a job merges over a log of so many hours that has the same keys in each minute."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.json"
        path.write_text("".join(_lines(hours)))
        text = f"SELECT k, {AGGREGATES[kind]} AS v FROM log GROUP BY k WINDOWING {case.clause}"
        run = LocalRun(text, [LocalSource("log", (str(path),))], LocalOptions(BEGIN_MS))
        for _ in run.results():
            pass
        return run.master.windows_made.inputs


def _lines(hours: int) -> Iterator[str]:
    for minute in range(60 * hours):
        for key in range(KEYS):
            yield json.dumps({"time": BEGIN_MS + minute * MINUTE_MS, "k": f"k{key}", "n": minute}) + "\n"
