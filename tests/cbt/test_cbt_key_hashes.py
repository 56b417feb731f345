"""The kernel hashes keys as Python does."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cbt
from cbt.algebra import hashing
from cbt.native.library import load
from cbt.native.loading import Loaded

COLUMNS = {
    pl.String(): st.none() | st.text(max_size=30) | st.sampled_from(["", "x" * 12, "é" * 200, "y" * 300_000]),
    pl.Int64(): st.none() | st.integers(-(2**63), 2**63 - 1),
    pl.Boolean(): st.none() | st.booleans(),
}


@pytest.mark.skipif(load().library is None, reason="there is no kernel here")
@given(data=st.data(), seed=st.integers(0, 2**64 - 1))
def test_hashes_are_the_same_in_the_kernel_and_in_python(data: Any, seed: int) -> None:
    dtypes = data.draw(st.lists(st.sampled_from(list(COLUMNS)), min_size=1, max_size=3))
    rows = data.draw(st.integers(0, 5))
    columns = [
        pl.Series("", data.draw(st.lists(COLUMNS[dtype], min_size=rows, max_size=rows)), dtype=dtype)
        for dtype in dtypes
    ]
    columns = [column[data.draw(st.integers(0, 1)) : rows] for column in columns] if len(columns) == 1 else columns
    found = cbt.key_hash(columns, seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hashing, "load", lambda: Loaded(None, "off"))
        assert found.to_list() == cbt.key_hash(columns, seed).to_list()
    keys = pl.DataFrame([column.alias(str(number)) for number, column in enumerate(columns)])
    assert cbt.key_places(keys, seed, 10).tolist() == [hash_ >> 54 for hash_ in found.to_list()]
    identities = zip(*cbt.key_identities(keys, np.array([seed, 1], np.uint64)), strict=True)
    assert len({*identities}) == len(set(keys.rows()))
