"""Errors a person at a shell sees: one line that says what and where."""

from __future__ import annotations


class ElfError(Exception):
    """Something went wrong at run time (exit code 1)."""


class UsageError(ElfError):
    """The request itself cannot be carried out as it was written (exit code 2)."""
