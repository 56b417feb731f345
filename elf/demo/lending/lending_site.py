"""One web server of a lending company: `python -m elf.demo.lending.lending_site --name shop-0 --directory DIR`.

Borrowers apply for loans (`POST /apply`), and hear what they would pay back and whether they get the loan. Each
application is a line in `events.json`, with the fields of Enorm's section 2. Its date is that which the borrower says:
the demo's days are shorter than others.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

from elf.demo.shop.form_serving import FormAnswer, FormServer, fields_of
from elf.demo.shop.journal import Journal
from elf.demo.shop.serving import Options, run_server

DAYS_A_YEAR = 365
_BASE, _BY_DEBT = 0.035, 0.12
"""The interest of a year, for those who ask for next to nothing; what an income of a year adds to it."""
_AMOUNT_MAX, _DAYS_MAX, _INCOME_MAX = 10_000_000, 20 * DAYS_A_YEAR, 100_000_000
_DATE_MAX_MS = 4_102_444_800_000


@dataclass(frozen=True, slots=True)
class Area:
    """Terms of loans in an area: what a year costs beyond the base, and the part of a year's income that is lent."""

    surcharge: float
    lent_max: float


AREAS = {
    "Als": Area(0.000, 0.50),
    "Bornholm": Area(0.021, 0.30),
    "Fyn": Area(0.004, 0.45),
    "Jylland": Area(0.008, 0.40),
    "Lolland": Area(0.017, 0.35),
    "Sjælland": Area(0.012, 0.55),
}


@dataclass(frozen=True, slots=True)
class Application:
    """A borrower's application; `days` is 0 where the form does not say for how long."""

    user: str
    area: str
    date_ms: int
    amount: int
    days: int
    income: int


def lending(_options: Options, journal: Journal) -> FormServer:
    """The server."""
    return FormServer(journal, "/apply", "an application for a loan", answer)


def answer(form: bytes, _cookie: str) -> FormAnswer:
    """Decides on an application; what is none is refused, and not logged."""
    try:
        one = read_application(form)
    except (ValueError, KeyError):
        return FormAnswer({"error": "this is no application"}, status=HTTPStatus.BAD_REQUEST)
    back, is_approved = decided(one)
    return FormAnswer({"approval": is_approved, "return": back}, _event(one, back, is_approved=is_approved))


def read_application(form: bytes) -> Application:
    """The application in a form. Raises ValueError and KeyError for what is none."""
    fields = fields_of(form)
    amount, days = int(fields["amount"]), int(fields["lendingTime"])
    date_ms, income = int(fields["date"]), int(fields["income"])
    is_sound = 0 <= amount <= _AMOUNT_MAX and 0 <= days <= _DAYS_MAX and 0 < income <= _INCOME_MAX
    if not is_sound or not 0 <= date_ms < _DATE_MAX_MS or fields["area"] not in AREAS:
        raise ValueError("no such loan is given")
    return Application(fields["user"], fields["area"], date_ms, amount, days, income)


def decided(one: Application) -> tuple[int, bool]:
    """Decides on a loan: how much is to be paid back, and whether it is given.

    >>> decided(Application("ann", "Als", 0, 10_000, 365, 50_000))
    (10590, True)
    >>> decided(Application("bob", "Bornholm", 0, 20_000, 365, 50_000))
    (22080, False)
    """
    area = AREAS[one.area]
    rate = _BASE + area.surcharge + _BY_DEBT * one.amount / one.income
    back = one.amount + round(one.amount * rate * one.days / DAYS_A_YEAR)
    return back, one.days > 0 and 0 < one.amount <= area.lent_max * one.income


def _event(one: Application, back: int, *, is_approved: bool) -> dict[str, Any]:
    date = datetime.fromtimestamp(one.date_ms / 1000, UTC).isoformat(timespec="milliseconds")
    return {
        "user": one.user,
        "area": one.area,
        "date": date.replace("+00:00", "Z"),
        "approval": is_approved,
        "amount": one.amount,
        "return": back,
        "lendingTime": one.days,
        "income": one.income,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line of one server."""
    return run_server("elf.demo.lending.lending_site", lending, arguments)


if __name__ == "__main__":
    sys.exit(main())
