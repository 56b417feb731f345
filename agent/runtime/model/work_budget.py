"""Bounds the time that the evaluation of one job's events takes from the loop that all jobs of an agent share."""

from __future__ import annotations

from dataclasses import dataclass

from overlay import Id

ROW_S = 20e-6
"""Work that each event entitles a job to: ten times that of a query with many costly functions."""
SHARE = 0.25
"""Share of all time that a job may work for besides, for whatever it does for each block of events."""
DEBT_MAX_S = 8.0
"""Work beyond both for which a job is ended: a few seconds are a burst, or one unlucky moment."""


class OverBudgetError(Exception):
    """A job takes too much time from the others."""


@dataclass(slots=True)
class _Account:
    at: float
    debt_s: float = 0.0
    taken_s: float = 0.0
    """Work that nobody has been told of."""


class WorkBudgets:
    """One account for each job: work is a debt, which events and the passing of time pay off."""

    def __init__(self) -> None:
        self._accounts: dict[Id, _Account] = {}

    def charge(self, app_id: Id, work_s: float, rows: int, now: float) -> None:
        """Takes work that began with `rows` new events. Raises OverBudgetError when the job has overdrawn."""
        account = self._accounts.get(app_id)
        if account is None:
            account = self._accounts[app_id] = _Account(now)
        paid_s = rows * ROW_S + SHARE * (now - account.at)
        account.debt_s = max(0.0, account.debt_s - paid_s) + work_s
        account.at = now
        account.taken_s += work_s
        if account.debt_s > DEBT_MAX_S:
            raise OverBudgetError(
                f"its expressions take too long: its last block of events took {work_s:.1f} s of work, and it owes"
                f" {account.debt_s:.0f} s, of which a query may owe {DEBT_MAX_S:g}. Use fewer or simpler ones"
            )

    def take(self, app_id: Id) -> float:
        """The work for a job since this was asked last (s)."""
        if (account := self._accounts.get(app_id)) is None:
            return 0.0
        taken_s, account.taken_s = account.taken_s, 0.0
        return taken_s

    def close(self, app_id: Id) -> None:
        """Forgets a job that is over."""
        self._accounts.pop(app_id, None)
