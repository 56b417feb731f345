"""Takes records of commits where an agent stands by: in order, and once it is known who the hosts are."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from agent.runtime.keyed.hosting.arrivals import Arrivals
from agent.runtime.keyed.hosting.commits.record_pieces import Pieces, bytes_of
from agent.runtime.keyed.hosting.commits.records import RecordError
from agent.runtime.keyed.hosting.commits.standby import StandbyStore
from agent.runtime.keyed.hosting.host import Host
from agent.runtime.keyed.hosting.layout import GraphLayout
from agent.runtime.keyed.hosting.options import KeyedOptions
from agent.runtime.keyed.hosting.placement.configurations import Ballot, Configurations
from agent.runtime.keyed.hosting.placement.roots import Say
from agent.runtime.keyed.logical_nodes import NODES
from agent.runtime.messages.elements import CommitHeld, CommitProbe, CommitRecord
from agent.runtime.model.fields import Message
from overlay import Id, Peer


class _Line(NamedTuple):
    """The records of one host, some of which may wait for a decision. `nodes`: those in them, with their epochs."""

    session: int
    arrivals: Arrivals[CommitRecord]
    nodes: dict[int, int]
    pieces: Pieces


class StandbyRecords:
    """Takes the records of all hosts, and tells them what is held. `say`, `flush`: put ballots together, and send
    them."""

    def __init__(
        self,
        app_id: Id,
        layout: GraphLayout,
        options: KeyedOptions,
        configurations: Configurations,
        store: StandbyStore,
        host: Host,
        send: Callable[[Peer, Message, float], None],
        say: Say,
        flush: Callable[[float], None],
    ) -> None:
        self.app_id, self._known, self._store, self._host = app_id, configurations, store, host
        self._send, self._say, self._flush = send, say, flush
        self._elements, self._memory_bytes = len(layout.elements), options.memory_bytes
        self._lines: dict[Peer, _Line] = {}
        self.refused = 0

    def take_all(self, now: float) -> None:
        """Takes the records that have waited for decisions."""
        for sender, line in list(self._lines.items()):
            self._take_records(sender, line, now)

    def forget(self, peer: Peer) -> None:
        """Forgets what has come of a host that is dead."""
        self._lines.pop(peer, None)

    def record(self, message: CommitRecord, sender: Peer, now: float) -> None:
        """Takes a record, or a part of one."""
        if (line := self._line(sender, message.session)) is None:
            return
        if message.number < line.arrivals.next:
            self._tell_held(sender, line, now)
            return
        line.arrivals.put(message.number, message)
        self._take_records(sender, line, now)
        if (first := line.arrivals.first) is not None:
            self._ask_about(first, sender, now)
        if end := line.arrivals.lost_before(now):
            self._send(sender, CommitHeld(self.app_id, line.session, line.arrivals.next, lost_before=end), now)

    def _line(self, sender: Peer, session: int) -> _Line | None:
        """The records of a session of a host; None if it is over."""
        known = self._lines.get(sender)
        if known is None or known.session < session:
            known = self._lines[sender] = _Line(session, Arrivals(), {}, Pieces())
        return known if known.session == session else None

    def _ask_about(self, message: CommitRecord, sender: Peer, now: float) -> None:
        """Asks a host for the decisions by which it commits, as far as they are not known here."""
        for node, epoch in _nodes_of(message):
            if (known := self._known.epoch(node)) < epoch:
                self._say("chosen", sender, Ballot(node, known, 0, self._known[node]))
        self._flush(now)

    def probed(self, probe: CommitProbe, sender: Peer, now: float) -> None:
        """A host asks how many of its records are held."""
        if (line := self._line(sender, probe.session)) is not None:
            if (first := line.arrivals.first) is not None:
                self._ask_about(first, sender, now)
            self._tell_held(sender, line, now, probe.number)

    def _tell_held(self, sender: Peer, line: _Line, now: float, sent: int = 0) -> None:
        """Tells a host how many of its records are held, and which are lost if it has sent so many."""
        self._correct_host(line.nodes.items(), sender, now)
        end = line.arrivals.lost_before(now, sent)
        self._send(sender, CommitHeld(self.app_id, line.session, line.arrivals.next, lost_before=end), now)

    def _take_records(self, sender: Peer, line: _Line, now: float) -> None:
        while (first := line.arrivals.first) is not None and self._take_record(first, sender, line, now):
            pass

    def _take_record(self, message: CommitRecord, sender: Peer, line: _Line, now: float) -> bool:
        """Holds a record; False if it has to wait until a decision is known."""
        try:
            if message.has_more:
                return self._take_piece(message, sender, line, now)
            record = line.pieces.record(message, self._elements)
        except RecordError:
            self.refused += 1
            line.arrivals.drop()
            return False
        accepted = np.zeros(NODES, bool)
        for node, epoch in zip(record.nodes.tolist(), record.epochs.tolist(), strict=True):
            if epoch > self._known.epoch(node) or self._known.fence(node, sender) > epoch:
                return False
            is_old = self._store.version(node)[0] > epoch or self._host.owned[node]
            accepted[node] = self._known.is_host(node, sender, epoch) and not is_old
        line.nodes.update(_nodes_of(message))
        self._correct_host(_nodes_of(message), sender, now)
        if self._store.lacks(record, accepted):
            line.arrivals.drop()
            line.pieces.clear()
            self._send(sender, CommitHeld(self.app_id, line.session, 0, True), now)
            return False
        self._store.take(record, accepted)
        line.pieces.clear()
        line.arrivals.took()
        self._send(sender, CommitHeld(self.app_id, line.session, line.arrivals.next), now)
        return True

    def _take_piece(self, message: CommitRecord, sender: Peer, line: _Line, now: float) -> bool:
        """Keeps a part of a record until all has come. Raises RecordError for more than a job may have in memory."""
        kept = sum(one.pieces.bytes for one in self._lines.values())
        if kept + bytes_of(message) > self._memory_bytes:
            raise RecordError("a state of more than the memory of the job")
        line.pieces.add(message)
        line.arrivals.took()
        self._send(sender, CommitHeld(self.app_id, line.session, line.arrivals.next), now)
        return True

    def _correct_host(self, nodes: Iterable[tuple[int, int]], sender: Peer, now: float) -> None:
        """Tells an agent that commits nodes, in these epochs, of which it is not the host any more, before it learns
        that its record is held: what it has committed of them does not count."""
        for node, epoch in nodes:
            if self._known.epoch(node) >= epoch and not self._known.is_host(node, sender, epoch):
                self._say("chosen", sender, Ballot(node, self._known.epoch(node), 0, self._known[node]))
        self._flush(now)


def _nodes_of(message: CommitRecord) -> list[tuple[int, int]]:
    """The nodes of a record, with their epochs."""
    nodes = np.frombuffer(message.nodes[: len(message.nodes) // 2 * 2], "<u2") % NODES
    epochs = np.frombuffer(message.epochs[: len(message.epochs) // 8 * 8], "<i8")
    return list(zip(nodes.tolist(), epochs.tolist(), strict=False))
