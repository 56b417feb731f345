"""Borrowers who apply for loans on several web servers, at times that they are told."""

import random
from collections.abc import Sequence
from http.client import HTTPConnection, HTTPException
from typing import Any
from urllib.parse import urlencode

from elf.demo.lending.lending_site import AREAS

_PEOPLE = 4_000
_TIMEOUT_S = 10.0
_DAYS = (90, 180, 365, 730)
_FORGETFUL = 0.03
"""Share of the applications that do not say for how long: there is no interest rate of them."""
_INCOMES = (18_000, 90_000)
_SHARES = (0.02, 0.8)
"""Bounds of a year's income, and of the part of it that people ask for."""


class Borrowers:
    """Applies for loans from one thread, over a connection to each server. `dice` decides who wants what, and where."""

    def __init__(self, ports: Sequence[int], dice: random.Random) -> None:
        self._dice = dice
        self._connections = [HTTPConnection("127.0.0.1", port, timeout=_TIMEOUT_S) for port in ports]

    def apply(self, times: Sequence[int], _until_ms: int, _logs: Sequence[object]) -> None:
        """Sends an application of each time (epoch ms) to some server. Raises OSError where one does not answer."""
        for time_ms in times:
            connection = self._dice.choice(self._connections)
            form = urlencode(self._wish(time_ms))
            try:
                _send(connection, form)
            except (OSError, HTTPException):  # a server ends connections over which nobody has asked for long
                connection.close()
                try:
                    _send(connection, form)
                except HTTPException as error:
                    raise OSError(f"a web server does not answer: {error}") from error

    def close(self) -> None:
        for connection in self._connections:
            connection.close()

    def _wish(self, time_ms: int) -> dict[str, Any]:
        dice = self._dice
        income = dice.randrange(*_INCOMES, 500)
        return {
            "user": f"borrower-{dice.randrange(_PEOPLE)}",
            "area": dice.choice(tuple(AREAS)),
            "date": time_ms,
            "amount": 100 * round(income * dice.uniform(*_SHARES) / 100),
            "lendingTime": 0 if dice.random() < _FORGETFUL else dice.choice(_DAYS),
            "income": income,
        }


def _send(connection: HTTPConnection, form: str) -> None:
    connection.request("POST", "/apply", form)
    answer = connection.getresponse()
    body = answer.read()
    if answer.status != 200:
        raise OSError(f"a web server has refused an application: {body[:200]!r}")
