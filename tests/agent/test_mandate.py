"""What creators sign: bytes that mean one thing only."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from agent import Mandate, mandate_digest, signed_bytes
from overlay import ID_SPACE, Codec, Id, WireError, app_id

DIGEST = hashlib.sha256(b"what the job runs").digest()
FIRST = Mandate(app_id("top", bytes(32)), 1, b"", 1_800_000_000_000, DIGEST)
MANDATES = st.builds(
    Mandate,
    app_id=st.integers(0, ID_SPACE - 1).map(Id),
    counter=st.integers(1, 2**63 - 1),
    predecessor=st.just(b"") | st.binary(min_size=32, max_size=32),
    expires_ms=st.integers(0, 2**63 - 1),
    function=st.binary(min_size=32, max_size=32),
)
FLEETS = st.text("abcxyz.-", min_size=1, max_size=63)


class Carrier(msgspec.Struct, frozen=True, tag=1, array_like=True):
    """A message that has a mandate in it."""

    mandate: Mandate


CODEC: Codec[Carrier] = Codec(Carrier)


def test_the_bytes_of_a_mandate_stay_what_they_are() -> None:
    mandate = Mandate(Id(255), 1, b"", 5, bytes(range(32)))
    fields = bytes.fromhex("c410" + "00" * 15 + "ff" + "01" + "c400" + "05" + "c420") + bytes(range(32))
    assert signed_bytes(mandate, "shop") == b"ELF mandate of a creator, 1\n\x96\xa4shop" + fields
    assert mandate_digest(mandate) == hashlib.sha256(b"ELF digest of a mandate, 1\n\x95" + fields).digest()


@given(MANDATES, MANDATES, FLEETS, FLEETS)
def test_different_mandates_are_different_bytes(one: Mandate, other: Mandate, fleet: str, elsewhere: str) -> None:
    assert (signed_bytes(one, fleet) == signed_bytes(other, elsewhere)) == ((one, fleet) == (other, elsewhere))
    assert (mandate_digest(one) == mandate_digest(other)) == (one == other)
    assert len(mandate_digest(one)) == 32


@given(MANDATES, FLEETS)
def test_one_changed_field_changes_what_is_signed(mandate: Mandate, fleet: str) -> None:
    changes: dict[str, Any] = {
        "app_id": Id(mandate.app_id ^ 1),
        "counter": mandate.counter % (2**63 - 1) + 1,
        "predecessor": mandate_digest(mandate),
        "expires_ms": mandate.expires_ms ^ 1,
        "function": mandate_digest(mandate),
    }
    for field, value in changes.items():
        other = msgspec.structs.replace(mandate, **{field: value})
        assume(other != mandate)
        assert signed_bytes(other, fleet) != signed_bytes(mandate, fleet)
        assert mandate_digest(other) != mandate_digest(mandate)
    assert signed_bytes(mandate, f"{fleet}x") != signed_bytes(mandate, fleet)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"app_id": -1}, "app_id"),
        ({"app_id": ID_SPACE}, "app_id"),
        ({"counter": 0}, "counter"),
        ({"counter": 2**63}, "counter"),
        ({"expires_ms": -1}, "expiry"),
        ({"expires_ms": 2**63}, "expiry"),
        ({"predecessor": bytes(31)}, "digests of 32 bytes"),
        ({"function": b""}, "digests of 32 bytes"),
        ({"function": bytes(33)}, "digests of 32 bytes"),
    ],
)
def test_what_no_mandate_says_is_a_value_error(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        msgspec.structs.replace(FIRST, **change)


@given(MANDATES)
def test_a_mandate_goes_through_messages_as_it_is(mandate: Mandate) -> None:
    assert CODEC.decode(CODEC.encode(Carrier(mandate))) == Carrier(mandate)


@pytest.mark.parametrize(
    "fields",
    [
        [bytes(16), 0, b"", 5, DIGEST],
        [bytes(15), 1, b"", 5, DIGEST],
        [bytes(16), True, b"", 5, DIGEST],
        [bytes(16), 1, b"", 5, DIGEST[1:]],
        [bytes(16), 1, b"x", 5, DIGEST],
        [bytes(16), 1, b"", 5],
        [bytes(16), 1, b"", 5, DIGEST, 0],
    ],
)
def test_messages_with_no_mandate_in_them_are_refused(fields: list[Any]) -> None:
    with pytest.raises(WireError):
        CODEC.decode(msgspec.msgpack.encode([1, fields]))
