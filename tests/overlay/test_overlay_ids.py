import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlay import (
    ID_SPACE,
    Peer,
    app_id,
    closer,
    closest,
    digit,
    distance,
    format_id,
    group_id,
    parse_id,
    shared_prefix_length,
)

ids = st.integers(min_value=0, max_value=ID_SPACE - 1)


@given(ids, ids)
def test_distance_is_symmetric_and_at_most_half_the_ring(a: int, b: int) -> None:
    assert distance(a, b) == distance(b, a) <= ID_SPACE // 2
    assert (distance(a, b) == 0) == (a == b)


@given(ids, ids, ids)
def test_distance_obeys_the_triangle_inequality(a: int, b: int, c: int) -> None:
    assert distance(a, c) <= distance(a, b) + distance(b, c)


@given(ids, st.sets(ids, min_size=1, max_size=20))
def test_closest_is_one_node_whatever_the_order(key: int, nodes: set[int]) -> None:
    found = closest(key, sorted(nodes))
    assert found == closest(key, sorted(nodes, reverse=True))
    assert all(other == found or closer(key, found, other) for other in nodes)


@given(ids, st.integers(min_value=1, max_value=ID_SPACE // 2 - 1))
def test_of_two_at_one_distance_the_smaller_id_is_closer(key: int, gap: int) -> None:
    below, above = (key - gap) % ID_SPACE, (key + gap) % ID_SPACE
    assert closest(key, [below, above]) == min(below, above)


@given(ids, ids)
def test_digits_spell_the_id_and_the_shared_prefix(a: int, b: int) -> None:
    digits_a, digits_b = ([digit(identifier, row) for row in range(32)] for identifier in (a, b))
    assert "".join(f"{value:x}" for value in digits_a) == format_id(a)
    shared = next((row for row in range(32) if digits_a[row] != digits_b[row]), 32)
    assert shared_prefix_length(a, b) == shared


@given(ids)
def test_text_round_trips(identifier: int) -> None:
    assert parse_id(format_id(identifier)) == parse_id(format_id(identifier).upper()) == identifier


@pytest.mark.parametrize("text", ["", "0" * 31, "0" * 33, "g" * 32, " " + "0" * 31, "_" * 32, "٣" * 32])
def test_parse_id_refuses_other_text(text: str) -> None:
    with pytest.raises(ValueError, match="32 hexadecimal digits"):
        parse_id(text)


def test_app_ids_hash_lengths_so_that_fields_cannot_be_shifted() -> None:
    assert app_id("ab", b"c") != app_id("a", b"bc")
    assert app_id("a", b"") != group_id("a")
    field = b"\x00\x00\x00\x03top" + b"\x00\x00\x00\x05alice"
    assert app_id("top", b"alice") == int.from_bytes(hashlib.sha1(field).digest()[:16], "big")


@pytest.mark.parametrize("node_id", [-1, ID_SPACE])
def test_a_peer_has_an_id_of_the_ring(node_id: int) -> None:
    with pytest.raises(ValueError, match="an id is"):
        Peer(node_id, "here")


@pytest.mark.parametrize("address", ["", "x" * 256, "a\nb", "\x1b[31m"])
def test_a_peer_has_a_printable_address(address: str) -> None:
    with pytest.raises(ValueError, match="not an address"):
        Peer(1, address)


def test_a_peer_cannot_be_changed() -> None:
    peer = Peer(1, "here")
    with pytest.raises(AttributeError):
        peer.address = "there"
    assert peer == Peer(1, "here") != Peer(1, "there")
    assert len({peer, Peer(1, "here"), Peer(2, "here")}) == 2
