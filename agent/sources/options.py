"""Types of option values that several kinds of sources share, and the mark of checks on values."""

from __future__ import annotations

from typing import Annotated

import msgspec

RULE = "rule"
"""In `msgspec.Meta(extra={RULE: check})`: a function that raises ValueError with what is wrong with a value."""


def check_path(path: str) -> None:
    """Checks a path or a glob."""
    if "\0" in path:
        raise ValueError("has a NUL character, which no path has")


PathText = Annotated[str, msgspec.Meta(min_length=1, max_length=4096, extra={RULE: check_path})]
