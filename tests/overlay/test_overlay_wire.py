import tracemalloc
from contextlib import suppress
from typing import get_args

import msgpack
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlay import Codec, Id, Peer, WireError
from overlay.wire.epoch import TreeEpoch
from overlay.wire.messages import (
    GroupDigest,
    GroupRefused,
    LeafSetProbe,
    OverlayMessage,
    Route,
)
from overlay.wire.traffic import TRAFFIC
from overlay.wire.tree_fields import (
    GroupRefusal,
    UpwardEdge,
)

ids = st.integers(0, 2**128 - 1).map(Id)
peers = st.builds(Peer, ids, st.text("abc:.0123", min_size=1, max_size=20))
CODEC: Codec[OverlayMessage] = Codec(OverlayMessage)


class Note(msgspec.Struct, tag=1, array_like=True, frozen=True):
    text: str
    payload: bytes = b""


NOTES: Codec[Note] = Codec(Note)


@given(st.integers(0, 2**64 - 1), ids, peers, st.integers(0, 64), st.binary(max_size=100))
def test_a_routed_message_round_trips(number: int, key: Id, origin: Peer, hops: int, payload: bytes) -> None:
    message = Route(message_id=number, key=key, origin=origin, hops=hops, payload=payload, wants_response=False)
    data = CODEC.encode(message)
    assert CODEC.decode(data) == message
    assert key.to_bytes(16, "big") in data


@given(st.lists(peers, max_size=16))
def test_lists_of_peers_round_trip(members: list[Peer]) -> None:
    message = LeafSetProbe(leaves=tuple(members))
    assert CODEC.decode(CODEC.encode(message)) == message


@given(st.lists(ids, max_size=5), st.lists(st.tuples(ids, st.integers(0, 2**32 - 1)), max_size=5))
def test_digests_round_trip(children: list[Id], parents: list[tuple[Id, int]]) -> None:
    edges = tuple(
        UpwardEdge(key, number, TreeEpoch(number, key), ((TreeEpoch(1, key), number),)) for key, number in parents
    )
    message = GroupDigest(buckets=65535, children=tuple(children), parents=edges, asks=True)
    assert CODEC.decode(CODEC.encode(message)) == message


@pytest.mark.fuzz
@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_a_wire_error(data: bytes) -> None:
    for codec in (CODEC, NOTES):
        with suppress(WireError):
            codec.decode(data)


json_like = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text() | st.binary(), inner, max_size=3),
    max_leaves=20,
)


@pytest.mark.fuzz
@given(st.integers(0, 63), st.lists(json_like, max_size=6))
def test_messages_of_wrong_types_are_wire_errors(tag: int, fields: list[object]) -> None:
    with suppress(WireError):
        CODEC.decode(msgpack.packb([tag, *fields]))


@pytest.mark.fuzz
@given(st.data())
def test_mutated_messages_are_messages_or_wire_errors(data: st.DataObject) -> None:
    whole = bytearray(CODEC.encode(LeafSetProbe(leaves=tuple(Peer(n, f"peer-{n}") for n in range(16)))))
    for _ in range(data.draw(st.integers(1, 5))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(whole)))
    with suppress(WireError):
        CODEC.decode(bytes(whole[:cut]))


def read(data: bytes) -> OverlayMessage | None:
    try:
        return CODEC.decode(data)
    except WireError:
        return None


@pytest.mark.fuzz
@given(st.one_of(st.binary(max_size=60), st.tuples(st.integers(0, 20), json_like).map(msgpack.packb), st.data()))
def test_short_and_long_frames_are_read_alike(source: bytes | st.DataObject) -> None:
    if isinstance(source, bytes):
        data = source
    else:
        message = GroupRefused(refusals=(GroupRefusal(Id(5), Peer(2**127, "there:1")),))
        whole = bytearray(CODEC.encode(message))
        whole[source.draw(st.integers(0, len(whole) - 1))] = source.draw(st.integers(0, 255))
        data = bytes(whole)
    as_short = read(data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("overlay.wire.codec.SHORT_FRAME_BYTES_MAX", -1)
        assert read(data) == as_short


def test_all_messages_are_counted_as_something() -> None:
    assert set(TRAFFIC) == set(get_args(OverlayMessage))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "not a message"),
        (b"\xc1", "not a message"),
        (b"\x91" * 5000, "not a message"),
        (b"\xdd\xff\xff\xff\xff", "not a message"),
        (b"\xdf\xff\xff\xff\xff", "not a message"),
        (b"\x92\x01\xdb\xff\xff\xff\xff", "not a message"),
        (b"\x92\x01\xa2\xff\xfe", "not a message"),
        (msgpack.packb([1, msgpack.Timestamp(0)]), "not a message"),
        (msgpack.packb([1, msgpack.ExtType(5, b"x" * 100)]), "not a message"),
        (msgpack.packb([1, "text"]) + b"\x00", "not a message"),
        (msgpack.packb([2, "text"]), "not a message"),
        (msgpack.packb([1, 5]), "Expected `str`, got `int`"),
        (msgpack.packb({"type": 1, "text": "x"}), "not a message"),
        (msgpack.packb([1, ["x"] * 5000]), "not a message"),
    ],
)
def test_hostile_frames(data: bytes, reason: str) -> None:
    with pytest.raises(WireError, match=reason):
        NOTES.decode(data)


@pytest.mark.parametrize("raw", [b"x" * 15, b"x" * 17, b"", "x" * 16, 5, None])
def test_ids_are_sixteen_bytes(raw: object) -> None:
    with pytest.raises(WireError):
        CODEC.decode(msgpack.packb([12, raw]))


@pytest.mark.parametrize("peer", [[b"x" * 16], [b"x" * 16, ""], [b"x" * 15, "a"], ["a", b"x" * 16], b"x", []])
def test_peers_are_an_id_and_an_address(peer: object) -> None:
    with pytest.raises(WireError):
        CODEC.decode(msgpack.packb([3, [peer]]))


def test_lists_longer_than_the_protocol_has_use_for_are_refused() -> None:
    seventeen = [[n.to_bytes(16, "big"), "a"] for n in range(17)]
    with pytest.raises(WireError, match="length <= 16"):
        CODEC.decode(msgpack.packb([3, seventeen]))


def test_the_frame_limit_is_checked_before_anything_is_read() -> None:
    data = NOTES.encode(Note("x", bytes(1000)))
    assert NOTES.decode(data, bytes_max=len(data)).payload == bytes(1000)
    with pytest.raises(WireError, match=f"{len(data)} bytes is over the limit of {len(data) - 1}"):
        NOTES.decode(data, bytes_max=len(data) - 1)


def test_a_large_payload_passes() -> None:
    payload = bytes(20 << 20)
    assert NOTES.decode(NOTES.encode(Note("x", payload))).payload == payload


@pytest.mark.fuzz
@pytest.mark.parametrize("token", [b"\x90", b"\x80", b"\xa2ab", b"\xcb" + bytes(8), b"\xd9\x02ab", b"\xc4\x02ab"])
def test_many_small_values_do_not_become_many_objects(token: bytes) -> None:
    chunk = b"\xdc\x0f\xff" + token * 4095
    bomb = b"\xdc\x04\x00" + chunk * 1024
    tracemalloc.start()
    with pytest.raises(WireError, match="more than 65536 values"):
        NOTES.decode(bomb)
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()
