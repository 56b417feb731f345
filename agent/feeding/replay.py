"""Tells what is read again after a restart from what is new: blocks end where the last runs were sealed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType

from agent.feeding.reading_ledger import Files
from agent.parsing import Format
from agent.runtime.durable.records import Chain
from agent.sources.blocks import Block, Origin
from agent.sources.file.finding import Identity
from agent.sources.file.followed_file import FollowedFile, ReadUpTo
from agent.sources.reader import SourceBlock, SourcePart

NOTHING_SEALED: Mapping[Chain, Files] = MappingProxyType({})


class Replay:
    """The places, by chain, up to which one reading repeats what an earlier process has read. A file is the same if it
    has the identity, now or where its reading goes on, and begins as it did: numbers of files are used again.
    """

    def __init__(self, sealed: Mapping[Chain, Files]) -> None:
        self._sealed: dict[Identity, list[tuple[Chain, ReadUpTo]]] = {}
        for chain, files in sealed.items():
            for file in files:
                self._sealed.setdefault(file.identity, []).append((chain, file))

    def _after(self, piece: SourceBlock[Format]) -> dict[Chain, int]:
        """The offsets in a file, beyond a block's beginning, at which an earlier process has sealed its last runs."""
        if not self._sealed:
            return {}
        file, begin = followed(piece.part), piece.block.origin.offset
        identities = {file.identity} if file.resumed is None else {file.identity, file.resumed.identity}
        known = (one for identity in identities for one in self._sealed.get(identity, ()))
        return {chain: place.offset for chain, place in known if place.offset > begin and file.begins_as(place)}

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
