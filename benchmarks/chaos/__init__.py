"""Chaos: agents are killed, stopped and started while their servers log, and every window is held against the logs.

`python -m benchmarks.chaos [--agents N] [--minutes M] [--seed S] [--json FILE]`
"""

from .chaos import Extent, run

__all__ = ["Extent", "run"]
