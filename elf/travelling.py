"""What of a job crosses the network, and how much at most."""

from __future__ import annotations

import polars as pl

import query
from agent.runtime.function import JobFunction

_BYTES = {pl.Int128: 16, pl.Boolean: 1}
_OF_ANY_LENGTH = (pl.String, pl.Binary, pl.List)


def travelling(plan: query.Plan) -> list[str]:
    """In words: what goes up from each agent, pane by pane; nothing where a single agent reads all there is."""
    if plan.app is not None:
        return []
    schema = JobFunction(plan).state_schema
    fixed = sum(_BYTES.get(type(dtype), 8) for dtype in schema.values() if not isinstance(dtype, _OF_ANY_LENGTH))
    texts = sum(isinstance(dtype, _OF_ANY_LENGTH) for dtype in schema.values())
    more = f" and {texts} of any length" if texts else ""
    every = f"each {plan.interval}" if plan.interval else "the whole"
    if plan.kind == "rows":
        return [f"of {every}, from each agent and combined: {fixed} bytes{more} a row, at most {plan.limit:,} rows"]
    groups = f"at most {plan.max_groups:,} groups and OTHER" if plan.keys else "one group"
    return [f"of {every}, from each agent and combined: {fixed} bytes{more} a group, {groups}; compressed by zstd"]
