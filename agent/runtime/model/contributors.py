"""Encodes sets of roster numbers as integers: bit n stands for the agent with number n (DESIGN: contributors)."""

from __future__ import annotations

from collections.abc import Iterator


def to_bytes(contributors: int) -> bytes:
    """Little-endian bitmap, as short as it can be."""
    return contributors.to_bytes((contributors.bit_length() + 7) // 8, "little")


def from_bytes(data: bytes) -> int:
    return int.from_bytes(data, "little")


def members(contributors: int) -> Iterator[int]:
    """Roster numbers in ascending order; O(members)."""
    while contributors:
        lowest = contributors & -contributors
        yield lowest.bit_length() - 1
        contributors ^= lowest
