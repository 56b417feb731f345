"""The key hash is fixed for ever: golden vectors, checked against a plain implementation, and equal values
hash alike.
"""

import math
import struct

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbt import key_hash

MASK = 2**64 - 1
NULL_ELEMENT = int.from_bytes(b"null-elf", "big")


def splitmix64(bits: int) -> int:
    bits = (bits + 0x9E3779B97F4A7C15) & MASK
    bits = ((bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    bits = ((bits ^ (bits >> 27)) * 0x94D049BB133111EB) & MASK
    return bits ^ (bits >> 31)


def element(value: float | bool | None) -> int:
    if value is None:
        return NULL_ELEMENT
    if isinstance(value, float):
        if math.isnan(value):
            return splitmix64(0x7FF8000000000000)
        if not (value.is_integer() and -(2**63) <= value < 2**63):
            return splitmix64(struct.unpack("<Q", struct.pack("<d", value))[0])
    return splitmix64(int(value) & MASK)


def hashes(*columns: list[object], seed: int = 0) -> list[int]:
    return key_hash([pl.Series("x", column) for column in columns], seed).to_list()


def chained(elements: list[int], seed: int) -> int:
    result = seed
    for bits in elements:
        result = splitmix64(result ^ bits)
    return result


def test_the_building_blocks_are_the_published_ones() -> None:
    assert splitmix64(0) == 0xE220A8397B1DCDAF
    published_xxh3_64 = {"": 0x2D06800538D394C2, "a": 0xE6C632B61E964E1F}
    assert hashes(list(published_xxh3_64)) == [splitmix64(bits) for bits in published_xxh3_64.values()]


@pytest.mark.parametrize(
    ("columns", "seed", "golden"),
    [
        (
            [["", "a", "product-000001", "é" * 20, None]],
            0,
            [
                0x59B0ED710B28ABEE,
                0xDBAC1E875F4D0340,
                0xDBA0F7A0894564D9,
                0x45F475FE95FEA2E4,
                0xA82AF45F1A8981FD,
            ],
        ),
        ([["", "a"]], MASK, [0x269480A719DC1148, 0xBE2062344916C201]),
        (
            [[0, 1, -1, 2**63 - 1, -(2**63)]],
            0,
            [
                0xA706DD2F4D197E6F,
                0x5E41AB087439611E,
                0x5DC20AA7B2A27137,
                0x69C9D98A86C5CD1E,
                0x86DB92E833B0C1A0,
            ],
        ),
        (
            [[0.5, 1.0, -0.0, math.nan, math.inf, 1e300]],
            7,
            [
                0x20EC794B50564616,
                0x7716DA39CBA275B2,
                0x64BF61B512FFABE7,
                0x9E678009DAB2B709,
                0x71072C4BB13B9000,
                0xC335BA4E579CC8D8,
            ],
        ),
        ([[True, False, None]], 7, [0x7716DA39CBA275B2, 0x64BF61B512FFABE7, 0xB173774D5AB8B305]),
        ([["a", "b"], [1, None], [2.5, 1.0]], 42, [0xF306A1434EA80891, 0x0CA31E71A859C677]),
    ],
)
def test_golden_vectors(columns: list[list[object]], seed: int, golden: list[int]) -> None:
    assert hashes(*columns, seed=seed) == golden


INTEGERS = st.integers(-(2**63), 2**63 - 1)


@given(
    st.lists(st.tuples(st.none() | INTEGERS, st.none() | st.floats(), st.none() | st.booleans())),
    st.integers(0, MASK),
)
def test_equals_a_plain_implementation(rows: list[tuple[int | None, float | None, bool | None]], seed: int) -> None:
    types = (pl.Int64, pl.Float64, pl.Boolean)
    columns = [pl.Series([row[n] for row in rows], dtype=dtype) for n, dtype in enumerate(types)]
    expected = [chained([element(value) for value in row], seed) for row in rows]
    assert key_hash(columns, seed).to_list() == expected


def test_equal_numbers_hash_alike_whatever_their_type() -> None:
    assert hashes([1, 0, None]) == hashes([1.0, -0.0, None])
    assert hashes([math.nan]) == hashes([-math.nan])
    assert hashes([None, None]) == hashes([None, "x"])[:1] * 2


def test_columns_are_not_commutative_and_the_seed_counts() -> None:
    assert hashes(["a"], ["b"]) != hashes(["b"], ["a"])
    assert hashes(["a"]) != hashes(["a"], seed=1)
    assert hashes([1]) != hashes([1], seed=1)


def test_refuses_what_it_cannot_hash() -> None:
    with pytest.raises(ValueError, match="at least one column"):
        key_hash([], 0)
    with pytest.raises(ValueError, match="List"):
        hashes([[1]])
