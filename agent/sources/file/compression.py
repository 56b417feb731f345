"""Decompresses files as streams, in bounded memory: every good byte is returned before damage is reported."""

import zlib
from collections.abc import Iterable, Iterator

import zstandard

GZIP_MAGIC = b"\x1f\x8b"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
ZSTD_SKIPPABLE_MAGICS = tuple(bytes((low, 0x2A, 0x4D, 0x18)) for low in range(0x50, 0x60))  # as pzstd starts with

_OUTPUT_BYTES_MAX = 1 << 20  # from one call of zlib
_ZSTD_INPUT_BYTES = 1 << 10  # into one call of zstd: 4 bytes may become 128 KiB, so this may become 32 MiB
_GZIP_WINDOW = 31  # zlib's code for a gzip header and trailer around a window of 32 KiB


class DamagedError(Exception):
    """A compressed stream is cut off or corrupt. `ends_early`: what there is of it is good."""

    def __init__(self, why: str, *, ends_early: bool = False) -> None:
        super().__init__(why)
        self.ends_early = ends_early


def compression_of(first: bytes) -> str | None:
    """The kind of compression that a file's first bytes show."""
    if first.startswith(GZIP_MAGIC):
        return "gzip"
    return "zstd" if first.startswith((ZSTD_MAGIC, *ZSTD_SKIPPABLE_MAGICS)) else None


def decompress(chunks: Iterable[bytes], kind: str) -> Iterator[bytes]:
    """The content of a compressed stream, `kind` gzip or zstd; members or frames may follow each other.

    Raises DamagedError after the last good byte.
    """
    return _gunzip(chunks) if kind == "gzip" else _unzstd(chunks)


def _gunzip(chunks: Iterable[bytes]) -> Iterator[bytes]:
    member = None
    for chunk in chunks:
        data = chunk
        while data:
            if member is None:
                data = data.lstrip(b"\0")  # padding, as tapes and block devices leave it
                if not data:
                    break
                member = zlib.decompressobj(_GZIP_WINDOW)
            yield from _inflate(member, data)
            data = member.unused_data
            if member.eof:
                member = None
    if member is not None:
        raise DamagedError("the gzip data ends in the middle", ends_early=True)


def _inflate(member: "zlib._Decompress", data: bytes) -> Iterator[bytes]:
    """Everything `data` yields up to the member's end, a bounded piece at a time."""
    while not member.eof:
        undo = member.copy()
        try:
            output = member.decompress(data, _OUTPUT_BYTES_MAX)
        except zlib.error:
            yield from _salvage(undo, data)
            raise DamagedError("the gzip data is corrupt") from None
        yield output
        data = member.unconsumed_tail
        if not data and len(output) < _OUTPUT_BYTES_MAX:
            return


def _salvage(member: "zlib._Decompress", data: bytes) -> Iterator[bytes]:
    """The content before the damage, byte by byte, since a call that fails returns nothing."""
    for index in range(len(data)):
        try:
            yield member.decompress(data[index : index + 1])
        except zlib.error:
            return


def _unzstd(chunks: Iterable[bytes]) -> Iterator[bytes]:
    frame = None
    for chunk in chunks:
        for start in range(0, len(chunk), _ZSTD_INPUT_BYTES):
            data = chunk[start : start + _ZSTD_INPUT_BYTES]
            while data:
                if frame is None:
                    frame = zstandard.ZstdDecompressor().decompressobj()
                try:
                    yield frame.decompress(data)
                except zstandard.ZstdError:
                    raise DamagedError("the zstd data is corrupt") from None
                data = frame.unused_data if frame.eof else b""
                if frame.eof:
                    frame = None
    if frame is not None:
        raise DamagedError("the zstd data ends in the middle", ends_early=True)
