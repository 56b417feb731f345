"""Writes lists and objects of events as texts that are equal where the values are."""

from __future__ import annotations

import json
from typing import Any

import msgspec


def canonical_json(value: Any) -> str | None:
    """JSON text with sorted keys; None if it holds a number beyond a double or is nested too deeply."""
    try:
        text = msgspec.json.encode(value, order="sorted").decode()
        if "null" in text:  # which msgspec writes for infinity as well
            json.dumps(value, allow_nan=False)
        return text
    except (ValueError, RecursionError):
        return None
