"""The targets of the fuzzers, tried with proper inputs, with those mutated, and with any bytes."""

from __future__ import annotations

import pytest
from fuzz_targets import TARGETS
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.fuzz
@pytest.mark.parametrize("name", TARGETS)
@given(st.data())
def test_no_input_breaks_a_target(name: str, data: st.DataObject) -> None:
    target, seeds = TARGETS[name]
    whole = bytearray(data.draw(st.sampled_from([*seeds, b"\x00"]), label="seed"))
    for _ in range(data.draw(st.integers(0, 6), label="mutations")):
        at = data.draw(st.integers(0, len(whole) - 1))
        match data.draw(st.integers(0, 3)):
            case 0:
                whole[at] = data.draw(st.integers(0, 255))
            case 1:
                del whole[at : at + data.draw(st.integers(1, 5))]
            case 2:
                whole[at:at] = data.draw(st.binary(max_size=20))
            case 3:
                other = data.draw(st.sampled_from(seeds))
                whole[at:at] = other[at % len(other) :]
        if not whole:
            break
    target(bytes(whole))
