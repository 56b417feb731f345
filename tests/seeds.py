"""Random histories by their seeds: a few for every run of the tests, the others for `make test-all`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def seeds(*quick: Any, slow: Iterable[Any]) -> list[Any]:
    """Values to parametrize a test with; those in `slow` are marked so."""
    return [*quick, *slowly(slow)]


def slowly(values: Iterable[Any]) -> list[Any]:
    """Values, or tuples of them, that only `make test-all` tries."""
    return [
        pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=pytest.mark.slow) for value in values
    ]
