"""Outcomes of checks, and the commands that mend what they find."""

from __future__ import annotations

from typing import Literal

import msgspec

Verdict = Literal["ok", "warning", "fault"]


class Diagnosis(msgspec.Struct, frozen=True):
    """The outcome of one check. `mend`: a command for a shell, "" where there is nothing to mend."""

    check: str
    verdict: Verdict
    found: str
    mend: str = ""


def fine(check: str, found: str) -> Diagnosis:
    return Diagnosis(check, "ok", found)


def warning(check: str, found: str, mend: str) -> Diagnosis:
    return Diagnosis(check, "warning", found, mend)


def fault(check: str, found: str, mend: str) -> Diagnosis:
    return Diagnosis(check, "fault", found, mend)
