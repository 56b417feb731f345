"""Row keys: bytes that sort as their parts do."""

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.archive.format.row_key import (
    SALTS,
    RowKey,
    RowKeyError,
    decode_key,
    encode_key,
    encode_keys,
    salt_of,
)

names = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=5)
times = st.integers(-(1 << 63), (1 << 63) - 1)
numbers = st.integers(0, (1 << 64) - 1)
keys = st.builds(RowKey, names, times, names, numbers, numbers)


def parts(key: RowKey) -> tuple[int, bytes, int, bytes, int, int]:
    return salt_of(key.agent), key.stream.encode(), key.time_ms, key.agent.encode(), key.file_id, key.offset


@given(keys)
def test_a_key_tells_its_parts(key: RowKey) -> None:
    assert decode_key(encode_key(key)) == key


@given(keys, keys)
def test_keys_sort_as_their_parts(one: RowKey, other: RowKey) -> None:
    assert (encode_key(one) < encode_key(other)) == (parts(one) < parts(other))


@given(names, names, st.lists(st.tuples(times, numbers, numbers), min_size=1, max_size=9))
def test_columns_of_keys_are_those_of_their_rows(stream: str, agent: str, rows: list[tuple[int, int, int]]) -> None:
    at, files, offsets = zip(*rows, strict=True)
    made = encode_keys(
        stream, agent, pl.Series(at, dtype=pl.Int64), pl.Series(files, dtype=pl.UInt64),
        pl.Series(offsets, dtype=pl.UInt64),
    )  # fmt: skip
    assert made.to_list() == [encode_key(RowKey(stream, time, agent, file, offset)) for time, file, offset in rows]


def test_salts_spread_agents() -> None:
    assert {salt_of(f"web-{number}") for number in range(500)} == set(range(SALTS))


@pytest.mark.parametrize(
    "data", [b"", b"\0", b"\0web\0", encode_key(RowKey("web", 0, "a", 1, 2))[1:], b"\xff" * 40,
             encode_key(RowKey("web", 0, "a", 1, 2)) + b"x"]
)  # fmt: skip
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(RowKeyError, match="no row key"):
        decode_key(data)


@pytest.mark.parametrize(
    ("key", "why"),
    [
        (RowKey("a\0b", 0, "a", 1, 2), "NUL"),
        (RowKey("web", 1 << 63, "a", 1, 2), "64 bits"),
        (RowKey("web", 0, "a", -1, 2), "file id"),
        (RowKey("\ud800", 0, "a", 1, 2), "Unicode"),
    ],
)
def test_parts_that_do_not_fit_are_refused(key: RowKey, why: str) -> None:
    with pytest.raises(RowKeyError, match=why):
        encode_key(key)
