"""Error that keeps an agent from starting."""

from __future__ import annotations


class StartError(Exception):
    """The agent cannot start; one line for people."""
