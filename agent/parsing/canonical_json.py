"""Writes lists and objects of events as texts that are equal where the values are."""

from __future__ import annotations

import json
from typing import Any

import msgspec


def is_json(value: object) -> bool:
    """Whether a list or dict from elsewhere than JSON is what JSON can hold: a program may also return bytes in it."""
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def canonical_json(value: Any) -> str | None:
    """JSON text with sorted keys.

    None if it holds a number beyond a double, what is not JSON, such as a key that is no text, or is nested too deeply.
    """
    try:
        text = msgspec.json.encode(value, order="sorted").decode()
        if "null" in text:  # which msgspec writes for infinity as well
            json.dumps(value, allow_nan=False)
        return text
    except (TypeError, ValueError, RecursionError):
        return None
