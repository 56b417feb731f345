"""Keeps which workers rows of this agent's logs were sent to, until they are never read again.

What is read again after a restart goes to the same workers, which drop what they have: anywhere else it would count
twice. Choices are in store before rows are sent, as the agent's process may end at any moment.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import polars as pl

import cbt
from agent.runtime.keyed.elements.runtime import SEQ, SOURCE
from agent.runtime.keyed.hosting.options import ChoiceStore, Ints

ROUTE, WORKER = "@route", "@worker"
_SCHEMA = pl.Schema(dict.fromkeys((ROUTE, SOURCE, SEQ, WORKER), pl.Int64()))
_LENGTH_BYTES = 4
FRAME_BYTES_MAX = 64 << 20
"""Upper bound on the choices of one block, once they are decompressed."""
COMPACT_BYTES = 1 << 20
"""Size of the store from which on what is forgotten is left out of it, once that is half of it."""
UNCHOSEN = -1


class _Block(NamedTuple):
    """The choices for some rows of a channel, in the order of their numbers, and their size in the store."""

    seqs: Ints
    workers: Ints
    size: int


class ChoiceLog:
    """The choices of one job on one agent. Without a store nothing is read again under the same numbers."""

    def __init__(self, store: ChoiceStore | None) -> None:
        self._store = store
        self._blocks: dict[tuple[int, int], deque[_Block]] = {}
        """By route and channel."""
        self._written = self._forgotten = 0
        self._is_readable = True
        """Whether the store has whole blocks alone: what is behind one that is not would not be found again."""
        if store is not None:
            data = store.read()
            for route, channel, block in _blocks_in(data):
                self._blocks.setdefault((route, channel), deque()).append(block)
                self._written += block.size
            self._is_readable = self._written == len(data)

    def chosen_before(self, route: int, channel: int, seqs: Ints) -> Ints:
        """The workers that were chosen for rows of a channel, -1 for none. O(rows), where rows come again O(rows · log
        choices)."""
        found: Ints = np.full(len(seqs), UNCHOSEN, np.int64)
        blocks = self._blocks.get((route, channel))
        if not blocks or seqs.min() > blocks[-1].seqs[-1]:
            return found
        known = np.concatenate([one.seqs for one in blocks])
        order = np.argsort(known, kind="stable")
        places = np.minimum(np.searchsorted(known, seqs, sorter=order), len(known) - 1)
        is_there = known[order[places]] == seqs
        workers = np.concatenate([one.workers for one in blocks])[order]
        found[is_there] = workers[places[is_there]]
        return found

    def keep(self, route: int, channel: int, seqs: Ints, workers: Ints) -> bool:
        """Keeps choices; False: they are not in store, and must not be acted on."""
        if self._store is None:
            return True
        if not self._is_readable:
            self._compact()
        data = _encoded(route, channel, seqs, workers)
        if not (self._is_readable and self._store.append(data)):
            return False
        self._written += len(data)
        self._blocks.setdefault((route, channel), deque()).append(_Block(seqs, workers, len(data)))
        return True

    def forget(self, safe: Callable[[int], int]) -> None:
        """Forgets the choices for rows that are never read again: below a number of their channel."""
        for (route, channel), blocks in list(self._blocks.items()):
            while blocks and blocks[0].seqs[-1] < safe(channel):
                self._forgotten += blocks.popleft().size
            if not blocks:
                del self._blocks[route, channel]
        if self._written > COMPACT_BYTES and 2 * self._forgotten > self._written:
            self._compact()

    def _compact(self) -> None:
        assert self._store is not None
        kept = [_encoded(*key, one.seqs, one.workers) for key, blocks in self._blocks.items() for one in blocks]
        if self._store.replace(b"".join(kept)):
            self._written, self._forgotten, self._is_readable = sum(map(len, kept)), 0, True


def _encoded(route: int, channel: int, seqs: Ints, workers: Ints) -> bytes:
    rows = len(seqs)
    columns = {ROUTE: np.full(rows, route), SOURCE: np.full(rows, channel), SEQ: seqs, WORKER: workers}
    frame = pl.DataFrame(columns, schema=_SCHEMA)
    data = cbt.encode_frame(frame, cbt.FAST)
    return len(data).to_bytes(_LENGTH_BYTES, "little") + data


def _blocks_in(data: bytes) -> Iterator[tuple[int, int, _Block]]:
    """The blocks of a store with their routes and channels, up to the first one that is not whole: it was never acted
    on."""
    place = 0
    while place + _LENGTH_BYTES <= len(data):
        begin = place + _LENGTH_BYTES
        end = begin + int.from_bytes(data[place:begin], "little")
        if end > len(data):
            return
        try:
            frame = cbt.decode_frame(data[begin:end], _SCHEMA, bytes_max=FRAME_BYTES_MAX)
        except cbt.FrameError:
            return
        if not frame.height or any(column.null_count() for column in frame):
            return
        block = _Block(frame[SEQ].to_numpy(), frame[WORKER].to_numpy(), end - place)
        yield int(frame[ROUTE][0]), int(frame[SOURCE][0]), block
        place = end
