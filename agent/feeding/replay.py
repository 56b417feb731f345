"""Tells what is read again after a restart from what is new: blocks end where the last runs were sealed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from weakref import WeakKeyDictionary

from agent.feeding.reading_ledger import Files
from agent.parsing import Format
from agent.runtime.durable.records import Chain
from agent.sources.blocks import Block, Origin
from agent.sources.file.followed_file import FINGERPRINT_BYTES, FollowedFile
from agent.sources.file.rotation import TELLING_BYTES
from agent.sources.reader import SourceBlock, SourcePart

_Places = tuple[tuple[Chain, int], ...]
NOTHING_SEALED: Mapping[Chain, Files] = MappingProxyType({})


class Replay:
    """The places, by chain, up to which one reading repeats what an earlier process has read. A file is the same if it
    has the identity, now or where its reading goes on, and begins as it did: numbers of files are used again. One that
    begins as it did for long enough is a copy of it.
    """

    def __init__(self, sealed: Mapping[Chain, Files]) -> None:
        self._sealed = [(chain, file) for chain, files in sealed.items() for file in files]
        self._of_file: WeakKeyDictionary[FollowedFile[Format], tuple[int, _Places]] = WeakKeyDictionary()
        """The places in each file, of which enough is there, with the number of its truncations."""

    def _after(self, piece: SourceBlock[Format]) -> dict[Chain, int]:
        """The offsets in a file, beyond a block's beginning, at which an earlier process has sealed its last runs."""
        if not self._sealed:
            return {}
        file, begin = followed(piece.part), piece.block.origin.offset
        return {chain: offset for chain, offset in self._places(file) if offset > begin}

    def _places(self, file: FollowedFile[Format]) -> _Places:
        """The offsets at which an earlier process has sealed its last runs."""
        truncated, places = self._of_file.get(file, (-1, ()))
        if truncated != file.truncated:
            identities = {file.identity} if file.resumed is None else {file.identity, file.resumed.identity}
            places = tuple(
                (chain, place.offset)
                for chain, place in self._sealed
                if (place.identity in identities or place.fingerprint_bytes >= TELLING_BYTES) and file.begins_as(place)
            )
            if file.size >= FINGERPRINT_BYTES:
                self._of_file[file] = file.truncated, places
        return places

    def of(self, piece: SourceBlock[Format]) -> frozenset[Chain]:
        """The chains whose last run was sealed after a block."""
        offsets = self._after(piece)
        end = piece.block.origin.offset + len(piece.block.data)
        return frozenset(chain for chain, offset in offsets.items() if end <= offset)

    def cut(self, pieces: Iterable[SourceBlock[Format]]) -> Iterator[SourceBlock[Format]]:
        """The blocks, cut where runs were sealed."""
        for piece in pieces:
            offsets = sorted(set(self._after(piece).values()))
            block = piece.block
            for offset in offsets:
                at = offset - block.origin.offset
                if 0 < at < len(block.data):
                    yield replace(piece, block=Block(block.data[:at], block.origin, block.overlong))
                    block = Block(block.data[at:], Origin(block.origin.file, offset), 0)
            yield replace(piece, block=block) if block is not piece.block else piece


def followed(part: SourcePart) -> FollowedFile[Format]:
    """The followed file that a part of a source is: no other source can be read again."""
    assert isinstance(part, FollowedFile)
    return part
