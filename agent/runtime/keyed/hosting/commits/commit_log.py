"""Commits of a host: what it emits is seen, and what it took is safe, once all standbys hold the state after it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from agent.runtime.keyed.hosting.commits.record_pieces import by_nodes, bytes_of, messages_of
from agent.runtime.keyed.hosting.commits.records import (
    StateRecord,
    Table,
    message_of,
    nodes_in,
    parts_of,
    tables_of,
)
from agent.runtime.keyed.hosting.options import Bools, Ints
from agent.runtime.keyed.hosting.rows.outgoing import probe_pause_s
from agent.runtime.keyed.hosting.rows.selection import events_of
from agent.runtime.keyed.logical_nodes import NODES, mask_of
from agent.runtime.messages.elements import CommitHeld, CommitProbe, CommitRecord, Part
from overlay import Id, Peer

LATER = 2**62
"""Number of a record that has not been sent yet; more by that of its commit, where it is that of a later one."""
PROBE_S = 1.0
"""Time without news of a standby after which it is asked how many records it holds, at first."""

SHARED_BYTES = 1 << 19
"""Bytes up to which all standbys get one frame of a table, of which each takes what it stands by for: small frames have
their price, whatever is in them."""
WINDOW_BYTES = 16 << 20
"""Bytes of records that are sent to a standby before it holds them; a message may be more."""


@dataclass(slots=True)
class _Line:
    """The records for one standby, in order; those that it does not hold yet are kept."""

    session: int
    next: int = 0
    sent: int = 0
    under_way: int = 0
    """Bytes that have been sent and are not held."""
    held: int = 0
    at: float = 0.0
    progress_at: float = 0.0
    unanswered: int = 0
    again_at: float = -PROBE_S
    told: tuple[bytes, bytes] = (b"", b"")
    """The nodes of the last record of a commit, and their epochs."""
    unheld: deque[CommitRecord] = field(default_factory=deque)

    @property
    def probe_at(self) -> float:
        """The time to ask."""
        return self.at + probe_pause_s(PROBE_S, self.unanswered)

    def heard(self, now: float) -> None:
        """The standby has said something."""
        self.at, self.unanswered = now, 0


@dataclass(slots=True)
class Pending:
    """A commit that standbys do not hold yet: for each, the number of its record, and the nodes it stands by for.
    `nodes`: those of which it tells something."""

    commit: int
    nodes: Bools
    emitted: list[tuple[str, pl.DataFrame]]
    waits: dict[Peer, tuple[int, Bools]]


class CommitLog:
    """Sends records to standbys, and tells which commits they hold. `release` gets what a commit has emitted.

    Records to one standby come in order or not at all, so only what it says that it lacks is sent again.
    """

    def __init__(
        self,
        app_id: Id,
        incarnation: int,
        send: Callable[[Peer, CommitRecord | CommitProbe, float], None],
        release: Callable[[Pending, float], None],
    ) -> None:
        self._app_id, self._send, self._release = app_id, send, release
        self._lines: dict[Peer, _Line] = {}
        self._serial = incarnation << 24
        self._pending: deque[Pending] = deque()
        self._is_releasing = False
        self.released = 0

    def add(
        self,
        record: StateRecord,
        standbys: Mapping[Peer, Bools],
        whole: Mapping[Peer, Ints],
        full: list[Table],
        emitted: list[tuple[str, pl.DataFrame]],
        owed: Mapping[Peer, Bools],
        now: float,
    ) -> None:
        """Sends a commit to all standbys. `whole`: nodes of which one has nothing yet; their state is in `full`.
        `owed`: nodes of which one gets all with the next commit only."""
        waits: dict[Peer, tuple[int, Bools]] = {}
        told = _told_of(record)
        shared = _shared(record, len(standbys))
        for peer, mask in standbys.items():
            if shared is None or peer in whole:
                parts, own = None, by_nodes(_part(record, mask, whole.get(peer, _NO_NODES), full))
            else:
                some = bool((told & mask).any())
                parts, own = shared if some else None, [record.of(mask, record.tables if some else [])]
            if self._tells_nothing(peer, own[0]):
                continue
            number = max(self.send(peer, one, now, parts) for one in own)
            waits[peer] = (number, mask)
            for pending in self._pending:
                if peer in pending.waits and LATER <= pending.waits[peer][0] <= LATER + record.commit:
                    pending.waits[peer] = (number, pending.waits[peer][1])
        self._pending.append(Pending(record.commit, told, emitted, waits))
        for peer, mask in owed.items():
            self.owe(peer, mask, record.commit + 1)

    def _tells_nothing(self, peer: Peer, part: StateRecord) -> bool:
        """Whether a standby has no need of a record, and nothing waits for it."""
        line = self._lines.get(peer)
        if line is None or part.tables or len(part.whole) or part.safe_commit:
            return False
        is_awaited = any(pending.waits.get(peer, (0,))[0] >= LATER for pending in self._pending)
        return not is_awaited and line.told == (part.nodes.tobytes(), part.epochs.tobytes())

    def owe(self, peer: Peer, nodes: Bools, commit: int) -> None:
        """Makes commits of nodes wait for the record of a later one: an agent stands by for them, and has nothing of
        them yet. Other commits do not: where nodes begin and move all the time, none would ever be held."""
        for pending in self._pending:
            if (owed := nodes & pending.nodes).any():
                before = pending.waits.get(peer)
                pending.waits[peer] = (LATER + commit, owed if before is None else before[1] | owed)

    def send(self, peer: Peer, record: StateRecord, now: float, parts: list[Part] | None = None) -> int:
        """Sends one record; returns its number in the line to that agent. `parts`: its tables as they travel, if they
        are known."""
        line = self._lines.get(peer)
        if line is None:
            self._serial += 1
            line = self._lines[peer] = _Line(self._serial)
        if parts is None:
            messages = messages_of(self._app_id, line.session, line.next, record)
        else:
            messages = [message_of(self._app_id, line.session, line.next, record, parts)]
        line.next += len(messages)
        if not record.is_move:
            line.told = (record.nodes.tobytes(), record.epochs.tobytes())
        if not line.unheld:
            line.heard(now)
        line.unheld.extend(messages)
        self._fill(peer, line, now)
        return line.next - 1

    def _fill(self, peer: Peer, line: _Line, now: float) -> None:
        """Sends what the window has room for."""
        while line.sent < line.next:
            message = line.unheld[line.sent - line.next]
            size = bytes_of(message)
            if line.under_way and line.under_way + size > WINDOW_BYTES:
                return
            line.sent, line.under_way = line.sent + 1, line.under_way + size
            self._send(peer, message, now)

    def held(self, peer: Peer, answer: CommitHeld, now: float) -> bool:
        """A standby holds records up to one, or asks for those after it. False: it has none of a line of today."""
        line, upto = self._lines.get(peer), answer.upto
        if line is None or line.session != answer.session or not line.held <= upto <= line.sent:
            return False
        line.heard(now)
        if upto > line.held:
            line.held, line.progress_at = upto, now
        while line.unheld and line.unheld[0].number < upto:
            line.under_way -= bytes_of(line.unheld.popleft())
        lost_before = answer.lost_before
        if answer.begin and now >= line.again_at + PROBE_S:
            line.again_at, lost_before = now, line.sent
        for message in line.unheld:
            if message.number < min(lost_before, line.sent):
                self._send(peer, message, now)
        self._fill(peer, line, now)
        return True

    def progress_at(self, peer: Peer) -> float:
        """The time at which an agent has last said that it holds more."""
        return self._lines[peer].progress_at if peer in self._lines else 0.0

    def has_room(self, peer: Peer) -> bool:
        """Whether all that goes to an agent is under way: what is large waits until then."""
        line = self._lines.get(peer)
        return line is None or line.sent == line.next

    def has_forgotten(self, peer: Peer, answer: CommitHeld) -> bool:
        """Whether a standby asks for records that it has held before: it has begun anew."""
        line = self._lines.get(peer)
        is_asking = answer.begin or answer.lost_before > answer.upto
        return is_asking and line is not None and line.session == answer.session and answer.upto < line.held

    def last(self, peer: Peer) -> int:
        """The number of the last record for an agent."""
        return self._lines[peer].next - 1 if peer in self._lines else -1

    def is_held(self, peer: Peer, number: int) -> bool:
        """Whether an agent holds a record."""
        line = self._lines.get(peer)
        return line is not None and number < line.held

    def settle(self, standbys: Mapping[Peer, Bools], now: float) -> None:
        """Releases commits that all those who stand by today hold, in order."""
        if self._is_releasing:
            return
        self._is_releasing = True
        try:
            while self._pending and self._is_settled(self._pending[0], standbys):
                pending = self._pending.popleft()
                self.released = pending.commit
                self._release(pending, now)
        finally:
            self._is_releasing = False

    def _is_settled(self, pending: Pending, standbys: Mapping[Peer, Bools]) -> bool:
        for peer, (number, mask) in pending.waits.items():
            if not self.is_held(peer, number) and peer in standbys and (standbys[peer] & mask).any():
                return False
        return True

    def begin_anew(self, peer: Peer) -> None:
        """Ends the line to a standby: what was under way may be lost, and commits wait for the next record, in which it
        gets all."""
        self._lines.pop(peer, None)
        for pending in self._pending:
            if peer in pending.waits:
                pending.waits[peer] = (LATER, pending.waits[peer][1])

    def drop(self, nodes: Bools) -> None:
        """Forgets what nodes have emitted that are elsewhere now."""
        for pending in self._pending:
            pending.emitted = events_of(pending.emitted, ~nodes)
            pending.waits = {peer: (number, mask & ~nodes) for peer, (number, mask) in pending.waits.items()}
            pending.nodes = pending.nodes & ~nodes

    def unreleased(self) -> list[tuple[str, pl.DataFrame]]:
        """The events of commits that are not held yet."""
        return [one for pending in self._pending for one in pending.emitted]

    def tick(self, now: float) -> None:
        """Asks standbys of which nothing has been heard for long."""
        for peer, line in self._lines.items():
            if line.unheld and now >= line.probe_at:
                line.at, line.unanswered = now, line.unanswered + 1
                self._send(peer, CommitProbe(self._app_id, line.session, line.sent), now)

    def next_timer(self) -> float | None:
        """The time of the next question."""
        return min((line.probe_at for line in self._lines.values() if line.unheld), default=None)

    @property
    def pending_count(self) -> int:
        """The number of commits that are not held yet."""
        return len(self._pending)

    @property
    def is_empty(self) -> bool:
        """Whether all commits are held."""
        return not self._pending


_NO_NODES: Ints = np.zeros(0, np.int64)


def _shared(record: StateRecord, standbys: int) -> list[Part] | None:
    """The tables of a record as all standbys get them, None if each gets its own."""
    size = sum(table.rows.estimated_size() for table in record.tables)
    return parts_of(record.tables) if standbys and size * standbys <= SHARED_BYTES else None


def _told_of(record: StateRecord) -> Bools:
    """The nodes of which a record tells something."""
    nodes = np.zeros(NODES, bool)
    for table in record.tables:
        nodes[nodes_in(table)] = True
    return nodes


def _part(record: StateRecord, mask: Bools, whole: Ints, full: list[Table]) -> StateRecord:
    """The part of a record for those nodes, with the whole state of some."""
    whole = whole[mask[whole]]
    is_whole = mask_of(whole)
    tables = tables_of(full, is_whole) if len(whole) else []
    tables += tables_of(record.tables, mask & ~is_whole)
    return record.of(mask, tables)._replace(whole=whole)
