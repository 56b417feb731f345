"""Errors shown to a person at a shell: one line that says what is wrong and where."""

from __future__ import annotations


class ElfError(Exception):
    """An error at run time (exit code 1)."""


class UsageError(ElfError):
    """A request that cannot be carried out as written (exit code 2)."""
