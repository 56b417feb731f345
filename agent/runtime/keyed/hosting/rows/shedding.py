"""Sheds load at a job's entry: hosts tell the share of events that they can process, and emitters drop the others.

Which events are dropped follows from the hash of one of their fields, so that events that belong together go together.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import polars as pl

import cbt
from agent.runtime.keyed.hosting.layout import TypeLayout
from overlay import Peer

LOOK_S = 0.1
"""Time between looks at a host's queue."""
SHARE_MIN = 1 / 256
QUEUE_S = 0.3
"""Work that is to wait at a host that cannot process everything."""
CORRECTION_S = 2.0
"""Time in which a queue that is longer or shorter than that is put right."""
RATES_S = 1.0
"""Time over which rates are averaged. Events that belong together come one after the other, and a share that jumps
parts them."""
PAUSE_S = 2.0
"""Time without a look after which what is known of rates is of no use."""
_SEED = 0x5EED
_DIGITS = 3


class TakenShare:
    """The share of a job's events that one host takes, by what has come to its elements and what they have processed.

    A host that keeps up has no queue, and takes all. Where work waits, as much is taken as is processed, and a little
    more or less, until the queue is `QUEUE_S` long.
    """

    def __init__(self) -> None:
        self._share = 1.0
        self._looked_at = 0.0
        self._processed = self._queued = 0
        self._came = self._done = 0.0
        """Rows a second."""

    @property
    def told(self) -> float:
        """The share as emitters are told it."""
        return round(self._share, _DIGITS)

    def look(self, processed: int, queued: int, now: float) -> None:
        """Learns how many rows have been processed here, ever, and how many wait."""
        passed_s = now - self._looked_at
        if passed_s < LOOK_S:
            return
        done = processed - self._processed
        came = done + queued - self._queued
        self._looked_at, self._processed, self._queued = now, processed, queued
        new = 1.0 if passed_s > PAUSE_S or not self._came else passed_s / RATES_S
        self._done += min(1.0, new) * (done / passed_s - self._done)
        self._came += min(1.0, new) * (came / passed_s - self._came)
        if passed_s > PAUSE_S or (not queued and self._came < 1):
            self._share = 1.0
            return
        wanted = self._done + (QUEUE_S * self._done - queued) / CORRECTION_S
        change = (wanted - self._came) / max(self._came, 1.0) * passed_s / RATES_S
        self._share = min(1.0, max(SHARE_MIN, self._share * (1 + min(1.0, max(-0.5, change)))))

    def next_timer(self, queued: int) -> float | None:
        """The time of the next look, None where nothing asks for one."""
        return self._looked_at + LOOK_S if queued or self._share < 1 else None


class Shedder:
    """Drops events of sources here, as the host that takes the least asks for. `shed`: their number, by type."""

    def __init__(self) -> None:
        self.shed: Counter[str] = Counter()
        self._shares: dict[Peer, float] = {}

    def heard(self, peer: Peer, share: float) -> None:
        """Learns the share that a host takes."""
        if share < 1:
            self._shares[peer] = share
        else:
            self._shares.pop(peer, None)

    def forget(self, peer: Peer) -> None:
        """A host is no more."""
        self._shares.pop(peer, None)

    def kept(self, type_: TypeLayout, rows: pl.DataFrame) -> pl.DataFrame:
        """The rows of a source that go in."""
        share = min(self._shares.values(), default=1.0)
        if not type_.shed or type_.guaranteed or share >= 1:
            return rows
        hashes = cbt.key_hash([rows[type_.shed]], _SEED).to_numpy()
        taken = rows.filter(pl.Series(hashes < np.uint64(int(share * 2.0**64))))
        self.shed[type_.name] += rows.height - taken.height
        return taken
