"""Row keys: bytes that sort as their parts do, one for every record an agent reads.

    salt (1 byte) | stream, 0x00 | event time (8 bytes) | agent, 0x00 | file id (8 bytes) | offset (8 bytes)

Numbers are big endian, the time in epoch milliseconds with its sign bit flipped. The salt spreads agents over regions.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

SALTS = 16
TIME_MS_MIN, TIME_MS_MAX = -(1 << 63), (1 << 63) - 1
NUMBER_MAX = (1 << 64) - 1
"""Upper bound on file ids and offsets."""
_SIGN = 1 << 63
NUMBER_BYTES = 8
"""Length of each number in a key."""
_Bytes = npt.NDArray[np.uint8]


class RowKeyError(ValueError):
    """Bytes are no row key, or parts cannot form one."""


@dataclass(frozen=True, slots=True)
class RowKey:
    """The origin of a record. Its salt follows from the agent."""

    stream: str
    time_ms: int
    agent: str
    file_id: int
    offset: int


def salt_of(agent: str) -> int:
    """The salt of an agent, from 0 to SALTS - 1."""
    return hashlib.blake2b(agent.encode(), digest_size=1).digest()[0] % SALTS


def encode_key(key: RowKey) -> bytes:
    """Encodes a key. RowKeyError for names with a NUL character and numbers out of range.

    >>> decode_key(encode_key(RowKey("web", -5, "web-1", 7, 1024)))
    RowKey(stream='web', time_ms=-5, agent='web-1', file_id=7, offset=1024)
    """
    return b"".join(
        (
            _stream_prefix(salt_of(key.agent), key.stream),
            _time_bytes(key.time_ms),
            _name_bytes(key.agent),
            _number_bytes(key.file_id),
            _number_bytes(key.offset),
        )
    )


def decode_key(data: bytes) -> RowKey:
    """Decodes a key. RowKeyError for other bytes."""
    stream, _, rest = data[1:].partition(b"\0")
    agent, _, numbers = rest[NUMBER_BYTES:].partition(b"\0")
    if len(numbers) != 2 * NUMBER_BYTES:
        raise RowKeyError(f"{data.hex()[:80] or 'nothing'} is no row key")
    try:
        key = RowKey(
            stream.decode(),
            int.from_bytes(rest[:NUMBER_BYTES], "big") - _SIGN,
            agent.decode(),
            int.from_bytes(numbers[:NUMBER_BYTES], "big"),
            int.from_bytes(numbers[NUMBER_BYTES:], "big"),
        )
    except UnicodeDecodeError:
        raise RowKeyError(f"{data.hex()[:80]} is no row key: its names are not UTF-8") from None
    if data[0] != salt_of(key.agent):
        raise RowKeyError(f"{data.hex()[:80]} is no row key: its first byte does not fit agent {key.agent!r}")
    return key


def encode_keys(stream: str, agent: str, times: pl.Series, file_ids: pl.Series, offsets: pl.Series) -> pl.Series:
    """The Binary keys of many rows of one agent's stream: times are Int64, the others UInt64."""
    prefix = np.frombuffer(_stream_prefix(salt_of(agent), stream), np.uint8)
    name = np.frombuffer(_name_bytes(agent), np.uint8)
    count = len(times)
    parts = [
        np.broadcast_to(prefix, (count, len(prefix))),
        _big_endian(times.to_numpy().view(np.uint64) ^ np.uint64(_SIGN)),
        np.broadcast_to(name, (count, len(name))),
        _big_endian(file_ids.to_numpy()),
        _big_endian(offsets.to_numpy()),
    ]
    return pl.Series("key", np.hstack(parts)).cast(pl.List(pl.UInt8)).cast(pl.Binary)


def _big_endian(numbers: npt.NDArray[np.uint64]) -> _Bytes:
    return numbers.astype(">u8").view(np.uint8).reshape(-1, NUMBER_BYTES)


def _stream_prefix(salt: int, stream: str) -> bytes:
    if not 0 <= salt < SALTS:
        raise RowKeyError(f"{salt} is no salt: they are 0 to {SALTS - 1}")
    return bytes((salt,)) + _name_bytes(stream)


def _name_bytes(name: str) -> bytes:
    try:
        data = name.encode()
    except UnicodeEncodeError:
        raise RowKeyError(f"{name!r} is not Unicode text") from None
    if b"\0" in data:
        raise RowKeyError(f"{name!r} has a NUL character, which row keys cannot hold")
    return data + b"\0"


def _time_bytes(time_ms: int) -> bytes:
    if not TIME_MS_MIN <= time_ms <= TIME_MS_MAX:
        raise RowKeyError(f"{time_ms} is no time in milliseconds: it has more than 64 bits")
    return (time_ms + _SIGN).to_bytes(NUMBER_BYTES, "big")


def _number_bytes(number: int) -> bytes:
    if not 0 <= number <= NUMBER_MAX:
        raise RowKeyError(f"{number} is neither a file id nor an offset: it is not from 0 to 2^64 - 1")
    return number.to_bytes(NUMBER_BYTES, "big")
