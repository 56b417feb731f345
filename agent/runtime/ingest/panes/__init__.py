"""Panes that one agent counts: their store while they are open, and their runs once they are sealed."""

from __future__ import annotations
