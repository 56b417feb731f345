"""The circular 128-bit id space of Pastry (paper 2.3): digits, prefixes, ring distance, hashes of names.

Node ids and keys are the same kind of number. Digits are hexadecimal (b = 4), the most significant first.
"""

import hashlib
from collections.abc import Iterable
from typing import TypeVar

ID_BITS = 128
ID_BYTES = ID_BITS // 8
ID_SPACE = 1 << ID_BITS
DIGIT_BITS = 4
DIGITS = ID_BITS // DIGIT_BITS
DIGIT_VALUES = 1 << DIGIT_BITS


class Id(int):
    """A point of the id space: an integer, 0 <= id < 2**128, which codecs write as 16 raw bytes."""

    __slots__ = ()


IdType = TypeVar("IdType", bound=int)


def checked_id(number: int) -> Id:
    """Return the number as an id; ValueError when it lies outside the id space.

    >>> checked_id(7)
    7
    """
    if not 0 <= number < ID_SPACE:
        raise ValueError(f"an id is 0 <= id < 2**{ID_BITS}, not {number}")
    return Id(number)


def digit(identifier: int, row: int) -> int:
    """Return the digit at index `row`, 0 being the most significant.

    >>> digit(parse_id("a5" + "0" * 30), 1)
    5
    """
    return identifier >> (ID_BITS - DIGIT_BITS * (row + 1)) & (DIGIT_VALUES - 1)


def shared_prefix_length(a: int, b: int) -> int:
    """Return how many leading digits two ids share: 0..32, 32 only when they are equal.

    >>> shared_prefix_length(parse_id("ab" + "0" * 30), parse_id("ac" + "0" * 30))
    1
    """
    return (ID_BITS - (a ^ b).bit_length()) // DIGIT_BITS


def clockwise(start: int, end: int) -> int:
    """Return how far `end` lies from `start`, going up and round through 2**128.

    >>> clockwise(ID_SPACE - 1, 2)
    3
    """
    return (end - start) % ID_SPACE


def distance(a: int, b: int) -> int:
    """Return the length of the shorter way round the ring between two ids.

    >>> distance(1, ID_SPACE - 1)
    2
    """
    gap = (a - b) % ID_SPACE
    return min(gap, ID_SPACE - gap)


def closer(key: int, a: int, b: int) -> bool:
    """Say whether `a` is numerically closer to `key` than `b`; the smaller id wins a tie.

    >>> closer(10, 9, 11), closer(10, 11, 9)
    (True, False)
    """
    return (distance(key, a), a) < (distance(key, b), b)


def closest(key: int, identifiers: Iterable[IdType]) -> IdType:
    """Return the id numerically closest to `key`, in the order of `closer`.

    >>> closest(10, [0, 9, 11, 200])
    9
    """
    return min(identifiers, key=lambda identifier: (distance(key, identifier), identifier))


def format_id(identifier: int) -> str:
    """Return the 32 hexadecimal digits of an id.

    >>> format_id(255)
    '000000000000000000000000000000ff'
    """
    return f"{identifier:0{DIGITS}x}"


def parse_id(text: str) -> Id:
    """Read the 32 hexadecimal digits of an id; ValueError says what is wrong with the text.

    >>> parse_id("0" * 30 + "ff")
    255
    """
    if len(text) != DIGITS or not set(text) <= set("0123456789abcdefABCDEF"):
        raise ValueError(f"an id is {DIGITS} hexadecimal digits, not {text[: DIGITS + 8]!r}")
    return Id(int(text, 16))


def id_from_bytes(data: bytes) -> Id:
    """Read an id from its 16 bytes, the most significant first; ValueError for any other length.

    >>> id_from_bytes(bytes(15) + b"A")
    65
    """
    if len(data) != ID_BYTES:
        raise ValueError(f"an id is {ID_BYTES} bytes, not {len(data)}")
    return Id(int.from_bytes(data, "big"))


def id_to_bytes(identifier: int) -> bytes:
    """Return the 16 bytes of an id, the most significant first."""
    return identifier.to_bytes(ID_BYTES, "big")


def app_id(name: str, creator_key: bytes) -> Id:
    """Return the key of an app: a hash of its name and its creator's public key, so names of two creators never clash.

    >>> app_id("top", b"alice") == app_id("top", b"bob")
    False
    """
    return _hash_fields(name.encode(), creator_key)


_NEAR_BITS = 80
"""Number of lower bits in which a stage's key differs from that of its job: agents lie much further apart, and too many
for anybody to find two names with equal ones."""


def stage_id(job: str, name: str, creator_key: bytes) -> Id:
    """Return the key of a stage of a job, `name` being that of the stage in the fleet: next to the job's key, so that
    both have the same root, the same heirs and the same ways there.

    >>> format_id(stage_id("top", "top.clicks", b"alice"))[:12] == format_id(app_id("top", b"alice"))[:12]
    True
    """
    apart = (1 << _NEAR_BITS) - 1
    return Id(app_id(job, creator_key) & ~apart | app_id(name, creator_key) & apart)


def is_app_id(identifier: int, name: str, creator_key: bytes) -> bool:
    """Say whether a key is that of a creator's app of this name: of a job, or of the stage JOB.STAGE of one.

    >>> is_app_id(stage_id("top", "top.clicks", b"alice"), "top.clicks", b"bob")
    False
    """
    job, dot, _ = name.rpartition(".")
    is_of_stage = bool(dot) and identifier == stage_id(job, name, creator_key)
    return is_of_stage or identifier == app_id(name, creator_key)


def group_id(name: str) -> Id:
    """Return the key of a fleet-wide group that belongs to no creator."""
    return _hash_fields(name.encode())


def address_id(address: str) -> Id:
    """Return the node id of an agent as in the paper: the first 16 bytes of the SHA-1 of its address.

    An agent that chooses its address chooses its place on the ring, so use this only where agents do not.

    >>> format_id(address_id("10.0.0.1:7700"))
    'ba7e0259938844c4f09e0f0220624203'
    """
    return id_from_bytes(hashlib.sha1(address.encode(), usedforsecurity=False).digest()[:ID_BYTES])


def tree_id(app: int, number: int) -> Id:
    """Return the key of one of the trees of an app, so that their roots lie far apart.

    >>> len({tree_id(7, number) for number in range(100)} | {Id(7)})
    101
    """
    return _hash_fields(id_to_bytes(app), number.to_bytes(4, "big"))


def _hash_fields(*fields: bytes) -> Id:
    """Hash fields, each prefixed with its length: different lists of fields never hash the same bytes."""
    hashed = hashlib.sha1(usedforsecurity=False)
    for field in fields:
        hashed.update(len(field).to_bytes(4, "big") + field)
    return id_from_bytes(hashed.digest()[:ID_BYTES])
