"""Works out each operator's windows anew from the servers' logs, line by line and without ELF, and compares them."""

import json
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any, NamedTuple

from elf.client import Result
from elf.demo.story.truth import instant

MINUTE_MS, HOUR_MS = 60_000, 3_600_000
DAY_MS = 24 * HOUR_MS
SIZES_MS = (10 * MINUTE_MS, 30 * MINUTE_MS, HOUR_MS, 6 * HOUR_MS, DAY_MS)
"""Lengths of the job's windows."""
APP = "lending"
WRONG_MAX = 5

Rows = list[dict[str, Any]]
Bounds = tuple[int, int]
"""Start and end of a window (epoch ms)."""


class RatedApplication(NamedTuple):
    """A line of a log that has an interest rate (hundredths of a per cent a year)."""

    at_ms: int
    date: str
    user: str
    area: str
    approval: bool
    income: int
    rate: int


@dataclass(frozen=True, slots=True)
class LendingOperator:
    """One of the paper's five. `stage`: its name in the job, "" for the job's own query; `rows`: a window's, of the
    applications in it.
    """

    number: int
    stage: str
    about: str
    rows: Callable[[Sequence[RatedApplication]], Rows]
    sizes_ms: Sequence[int] = SIZES_MS
    reads_logs: bool = True
    """Whether it reads logs, not windows of another one."""

    @property
    def app(self) -> str:
        return f"{APP}.{self.stage}" if self.stage else APP

    @property
    def name(self) -> str:
        return self.stage or "approval"


@dataclass(frozen=True, slots=True)
class Agreement:
    """The outcome for one operator: windows that are as the logs have them, and all that there should be.

    `wrong`: a line for each that differs, up to five.
    """

    same: int
    windows: int
    wrong: tuple[str, ...] = ()


def read_applications(logs: Iterable[Path]) -> list[RatedApplication]:
    """The applications of all servers that have an interest rate, by their dates."""
    lines = [json.loads(line) for log in logs for line in log.read_bytes().splitlines()]
    rated = [_rated(line) for line in lines if line["amount"] > 0 and line["lendingTime"] > 0]
    return sorted(rated)


def _rated(line: Mapping[str, Any]) -> RatedApplication:
    amount = line["amount"]
    rate = 10_000 * (line["return"] - amount) / amount * 365 / line["lendingTime"]
    whole = int(Decimal(rate).quantize(Decimal(1), ROUND_HALF_UP))
    return RatedApplication(
        instant(line["date"]), line["date"], line["user"], line["area"], line["approval"], line["income"], whole
    )


def _rates(inside: Sequence[RatedApplication]) -> Rows:
    return [
        {"date": one.date, "user": one.user, "area": one.area, "approval": one.approval, "rate": one.rate}
        for one in inside
    ]


def _interest_by_area(inside: Sequence[RatedApplication]) -> Rows:
    return [
        {
            "area": area,
            "rate": printed(sum(one.rate for one in loans), len(loans)),
            "income": printed(sum(one.income for one in loans), len(loans)),
            "loans": len(loans),
            "rates": sum(one.rate for one in loans),
        }
        for area, loans in _by_area([one for one in inside if one.approval])
    ]


def _approval_by_area(inside: Sequence[RatedApplication]) -> Rows:
    return [
        {
            "area": area,
            "share": printed(sum(one.approval for one in mine), len(mine)),
            "applications": len(mine),
            "approved": sum(one.approval for one in mine),
        }
        for area, mine in _by_area(inside)
    ]


def _interest(inside: Sequence[RatedApplication]) -> Rows:
    rates = [one.rate for one in inside if one.approval]
    return [{"rate": printed(sum(rates), len(rates)), "loans": len(rates)}] if rates else []


def _approval(inside: Sequence[RatedApplication]) -> Rows:
    approved = sum(one.approval for one in inside)
    return [{"share": printed(approved, len(inside)), "applications": len(inside)}] if inside else []


def printed(total: int, count: int) -> float:
    """A mean as results have it, with 15 significant digits.

    >>> printed(2, 3)
    0.666666666666667
    """
    return float(f"{total / count:.15g}")


def _by_area(inside: Iterable[RatedApplication]) -> list[tuple[str, list[RatedApplication]]]:
    areas: dict[str, list[RatedApplication]] = {}
    for one in inside:
        areas.setdefault(one.area, []).append(one)
    return sorted(areas.items())


OPERATORS = (
    LendingOperator(1, "rates", "the interest rate of each application", _rates, SIZES_MS[:1]),
    LendingOperator(2, "area_interest", "interest next to income, by area", _interest_by_area),
    LendingOperator(3, "area_approval", "share of applications approved, by area", _approval_by_area),
    LendingOperator(4, "interest", "interest of all loans", _interest, reads_logs=False),
    LendingOperator(5, "", "share of all applications approved", _approval, reads_logs=False),
)


def agreement(
    operator: LendingOperator, windows: Sequence[Result], applications: Sequence[RatedApplication], upto_ms: int
) -> Agreement:
    """Compares the windows of an operator with those of its applications, by date.

    Those that end by `upto_ms` have to be there, each once; later ones may be, and have to be right all the same.
    """
    found: dict[Bounds, Rows] = {}
    wrong = []
    for window in windows:
        if not window.rows:
            continue
        bounds = instant(window.window_start or ""), instant(window.window_end or "")
        if bounds in found:
            wrong.append(f"{told(bounds)} has come twice")
        found[bounds] = window.rows
    last_ms = max([upto_ms, *(end_ms for _, end_ms in found)])
    expected = dict(_windows(operator, applications, last_ms))
    expected = {bounds: rows for bounds, rows in expected.items() if bounds[1] <= upto_ms or bounds in found}
    same = [bounds for bounds, rows in expected.items() if found.get(bounds) == rows]
    wrong += [_difference(bounds, rows, found.get(bounds)) for bounds, rows in expected.items() if bounds not in same]
    wrong += [f"{told(bounds)} has {len(rows)} rows, none in the logs" for bounds, rows in found.items()
              if bounds not in expected]  # fmt: skip
    return Agreement(len(same), len(expected), tuple(wrong[:WRONG_MAX]))


def _windows(
    operator: LendingOperator, applications: Sequence[RatedApplication], last_ms: int
) -> Iterator[tuple[Bounds, Rows]]:
    """All windows up to an instant that have rows."""
    times = [one.at_ms for one in applications]
    for size_ms in operator.sizes_ms if times else ():
        for start_ms in range(times[0] // size_ms * size_ms, last_ms - size_ms + 1, size_ms):
            end_ms = start_ms + size_ms
            if rows := operator.rows(applications[bisect_left(times, start_ms) : bisect_left(times, end_ms)]):
                yield (start_ms, end_ms), rows


def _difference(bounds: Bounds, rows: Rows, found: Rows | None) -> str:
    if found is None:
        return f"{told(bounds)} has not come"
    differing = [(one, other) for one, other in zip(found, rows, strict=False) if one != other]
    shown, logged = differing[0] if differing else (f"{len(found)} rows", f"{len(rows)} rows")
    return f"{told(bounds)} has {shown}; in the logs {logged}"


def told(bounds: Bounds) -> str:
    """A window by its length and its end.

    >>> told((3_600_000, 5_400_000)), told((0, 86_400_000))
    ('30 min to 1970-01-01 01:30', '24 h to 1970-01-02 00:00')
    """
    start_ms, end_ms = bounds
    return f"{length(end_ms - start_ms)} to {clock(end_ms)}"


def length(size_ms: int) -> str:
    """A window's length, in minutes or hours."""
    return f"{size_ms // MINUTE_MS} min" if size_ms < HOUR_MS else f"{size_ms // HOUR_MS} h"


def clock(at_ms: int) -> str:
    """An instant in UTC, to the minute."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M")
