"""Sends rows of event types to the hosts of their logical nodes, and keeps them until they are safe."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np
import polars as pl

from agent.runtime.keyed.hosting.layout import NOWHERE, ROUTES, GraphLayout, TypeLayout, groups_by_host
from agent.runtime.keyed.hosting.options import Ints, KeyedOptions
from agent.runtime.keyed.hosting.rows.choice_log import ChoiceLog
from agent.runtime.keyed.hosting.rows.choosing import WorkerChooser
from agent.runtime.keyed.hosting.rows.outgoing import NEVER, Piece, RowSession, probe_pause_s
from agent.runtime.keyed.hosting.time.wrong_clocks import WrongClocks
from agent.runtime.keyed.logical_nodes import NODES
from agent.runtime.messages.elements import ElementCredit
from overlay import Peer

WINDOW = 32
"""Batches of one session that may be under way."""
UNRECEIVED_MAX = 5
"""Batches of one session that may be under way and not have come, as far as is known: more would only wait on the way,
and other news behind them."""
ROWS_MAX = 1 << 16
"""Rows of a batch at most: for this agent's own elements, which does not travel, and of what waits for others."""
ROWS_BYTES_MAX = 8 << 20
"""Bytes of a batch for another agent at most, as far as one before it tells, where it is more than a usual one."""
SESSION_BITS = 24
LOOK_S = 0.01
"""Time from news of a host until the rows that wait for theirs are looked through: many roots answer at about once."""
ASK_AGAIN_S = 0.5
"""Time after which the host of a node is asked for again."""
SLOW_MAX = 25
"""Times that a batch waits longer for more rows at most, where earlier ones have not come, or its source is behind:
fewer, with more in each."""
HURRIED_MAX = 3
"""Batches that have not come with which none is sent earlier than it is due."""
DOUBTED = 2
"""Questions without an answer from which on it is asked whether the host is another one now."""
UNANSWERED_MAX = 5
"""Questions without an answer after which rows that nobody keeps count as lost."""
UNKNOWN = -1

Deliver = Callable[[Peer, TypeLayout, RowSession, int, int, pl.DataFrame, float], None]
"""Sends one batch: its number, the rows before it and its rows."""
Probe = Callable[[Peer, RowSession, float], None]
"""Asks a host how far it is."""


class Emitter:
    """Knows the hosts of logical nodes, and has a session for each host and type.

    Rows of guaranteed types are kept until they are safe, and sent again, in order, in a new session, when a host has
    changed. What goes to one host comes in order or not at all, so nothing else is sent again but what a host says that
    it lacks; one that says nothing for long is asked how far it is. Rows for nodes without a known host wait.
    """

    def __init__(self, me: Peer, layout: GraphLayout, options: KeyedOptions, deliver: Deliver, probe: Probe) -> None:
        self._layout, self._options, self._deliver, self._probe = layout, options, deliver, probe
        self.wrong_clocks = WrongClocks()
        self.chooser = WorkerChooser(me.node_id, layout, ChoiceLog(options.choices))
        self.peers: list[Peer] = []
        self._indices: dict[Peer, int] = {}
        self._own = self.index_of(me)
        self.host_of: Ints = np.full(NODES, UNKNOWN, np.int16)
        self.epochs: Ints = np.zeros(NODES, np.int64)
        self.denied: Ints = np.zeros(NODES, np.int64)
        self._asked: dict[int, float] = {}
        self._sessions: dict[tuple[int, int], RowSession] = {}
        self._by_type: list[dict[int, RowSession]] = [{} for _ in layout.types]
        self._waiting: list[list[Piece]] = [[] for _ in layout.types]
        self._look_at: float = NEVER
        self._changed: dict[RowSession, None] = {}
        """Sessions in which something may have become due, since the last look at them, in this order."""
        self._due_at: float = NEVER
        """The time at which something is due in one of the others, or earlier."""
        self._has_stopped = False
        """Whether other hosts may have stopped, or go on, since that was last looked at."""
        self._has_more = [False for _ in layout.types]
        """By type, whether its source has more at hand."""
        self._serial = options.incarnation << SESSION_BITS
        self.null_keys: Ints = np.zeros(len(layout.routes), np.int64)
        """By route, the events that go nowhere on it."""
        self.sent_rows = self.sent_bytes = self.lost = self.resent = 0

    # Rows in.

    def emit(self, type_: TypeLayout, rows: pl.DataFrame, now: float) -> None:
        """Sends rows to the nodes of all routes of their type, in their order."""
        if type_.routes and rows.height:
            if type_.split:
                self._note_stopped()
                rows = self.chooser.chosen(type_, rows, now)
            routes = [route.index for route in type_.routes]
            self.null_keys[routes] += self._dispatch(type_, type_.numbered(rows), now)

    def _dispatch(self, type_: TypeLayout, rows: pl.DataFrame, now: float) -> Ints:
        """Puts rows into sessions; returns for each route how many have no node."""
        if self._look_at < NEVER:
            self._look_again(now)
        nodes = type_.nodes(rows)
        order, bits, stretches = groups_by_host(nodes, self.host_of)
        is_whole = bits is None and len(stretches) == 1 and stretches[0][1:] == (0, rows.height)
        ordered = rows if is_whole else rows[order]
        if bits is not None:
            ordered = ordered.with_columns(pl.Series(ROUTES, bits, dtype=pl.Int64))
        for host, begin, end in stretches:
            part = ordered[begin:end]
            if host == UNKNOWN:
                self._waiting[type_.place].append(Piece(part, self.wrong_clocks.lowest(part)))
                self._want(nodes[nodes != NOWHERE], now)
            else:
                session = self._session(host, type_, now)
                session.add(Piece(part, self.wrong_clocks.lowest(part)), now)
                self._changed[session] = None
        missing = nodes == NOWHERE
        if len(type_.routes) > 1 and missing.any():
            full = rows[ROUTES].to_numpy()
            missing &= (full[None, :] >> np.arange(len(type_.routes))[:, None]) & 1 == 1
        counts: Ints = missing.sum(axis=1)
        return counts

    def _want(self, nodes: Ints, now: float) -> None:
        for node in np.unique(nodes[self.host_of[nodes] == UNKNOWN]).tolist():
            self._asked.setdefault(node, now)

    def _session(self, host: int, type_: TypeLayout, now: float) -> RowSession:
        found = self._sessions.get((host, type_.place))
        if found is None:
            self._serial += 1
            found = self._sessions[host, type_.place] = RowSession(
                host, type_.place, self._serial, keeps=type_.guaranteed
            )
            found.progress_at, found.unanswered = now, 0
            self._by_type[type_.place][host] = found
        return found

    def _note_stopped(self) -> None:
        """Tells which nodes take nothing at the moment: those whose hosts are silent, or gone."""
        if self._has_stopped:
            self._has_stopped = False
            silent = [one.host for one in self._sessions.values() if one.unanswered]
            is_gone = (self.host_of == UNKNOWN) & (self.epochs > 0)
            self.chooser.stop(np.isin(self.host_of, silent) | is_gone)

    # Hosts.

    def index_of(self, peer: Peer) -> int:
        """The place of a peer among those known here."""
        if (found := self._indices.get(peer)) is None:
            found = self._indices[peer] = len(self.peers)
            self.peers.append(peer)
        return found

    def host(self, node: int) -> Peer | None:
        """The host of a node, as far as this emitter knows."""
        found = int(self.host_of[node])
        return self.peers[found] if found != UNKNOWN else None

    def learn(self, hosts: Mapping[int, tuple[int, Peer]], now: float) -> None:
        """Learns the epochs and hosts of nodes; older ones are ignored."""
        changed: dict[int, int] = {}
        for node, (epoch, peer) in hosts.items():
            if epoch >= self.epochs[node] and self.host_of[node] != UNKNOWN:
                self._asked.pop(node, None)
            if epoch > self.epochs[node] or (self.host_of[node] == UNKNOWN and epoch > self.denied[node]):
                self.epochs[node] = max(epoch, int(self.epochs[node]))
                changed[node] = self.index_of(peer)
                self._asked.pop(node, None)
        if changed:
            self._change(np.array(list(changed)), np.array(list(changed.values()), np.int16), now)

    def forget(self, nodes: list[int], now: float, *, denied: bool = False) -> None:
        """Takes the hosts of nodes for unknown. `denied`: the host itself says that it is none."""
        if denied:
            self.denied[nodes] = self.epochs[nodes]
        known = [node for node in nodes if self.host_of[node] != UNKNOWN]
        if known:
            self._change(np.array(known), np.full(len(known), UNKNOWN, np.int16), now)

    def _change(self, nodes: Ints, hosts: Ints, now: float) -> None:
        before = self.host_of[nodes]
        moved = before != hosts
        affected = set(np.unique(before[moved]).tolist())
        self.host_of[nodes] = hosts
        self._has_stopped = True
        for key in [key for key in self._sessions if key[0] in affected]:
            self._restart(key, now)
        if UNKNOWN in affected:
            self._look_at = min(self._look_at, now + LOOK_S)

    def _look_again(self, now: float) -> None:
        """Sends rows whose hosts have become known; before others of their nodes are sent."""
        self._look_at = NEVER
        for type_ in self._layout.types:
            waiting, self._waiting[type_.place] = self._waiting[type_.place], []
            self._again(type_, [piece.rows for piece in waiting], now, is_late=True)

    def failed(self, peer: Peer, now: float) -> None:
        """Takes the nodes of a dead host for unknown. Rows under way to it that nobody keeps are lost."""
        if (index := self._indices.get(peer)) is None:
            return
        self.forget(np.flatnonzero(self.host_of == index).tolist(), now)
        for key in [key for key in self._sessions if key[0] == index]:
            self.lost += 0 if self._sessions[key].keeps else self._sessions[key].under_way
            self._restart(key, now, ends=True)

    def _restart(self, key: tuple[int, int], now: float, *, ends: bool = False) -> None:
        """Sends what is kept in a session again, by today's hosts, in a new session."""
        session, type_ = self._sessions[key], self._layout.types[key[1]]
        if session.keeps or ends:
            del self._sessions[key], self._by_type[key[1]][key[0]]
            frames = session.frames()
            self.resent += session.under_way if session.keeps else 0
        else:
            frames = session.take_buffer()
        self._again(type_, frames, now)

    def _again(self, type_: TypeLayout, frames: list[pl.DataFrame], now: float, *, is_late: bool = False) -> None:
        """Sends rows by today's hosts; guaranteed ones that are late do not wait for more."""
        if frames:
            self._dispatch(type_, pl.concat(frames), now - self._options.cut_s if is_late and type_.guaranteed else now)

    # Answers.

    def credit(self, peer: Peer, credit: ElementCredit, now: float) -> bool:
        """Learns how far a host has come, and what it lacks; False if it is not one of today's sessions."""
        found = self._found(credit.place, peer, credit.session)
        if found is None:
            return False
        found.credit(credit.done if found.keeps else credit.received, now)
        self._has_stopped |= found.unanswered > 0
        found.progress_at, found.unanswered = now, 0
        found.received = max(found.received, credit.received)
        self._changed[found] = None
        if credit.event_s and (type_ := self._layout.types[found.place]).split:
            self.chooser.heard(type_, self.host_of == found.host, credit.event_s, credit.of_host, now)
        if found.keeps and credit.lost_before > credit.received:
            self._send_lost(found, peer, credit, now)
        return True

    def _send_lost(self, session: RowSession, peer: Peer, credit: ElementCredit, now: float) -> None:
        """Sends batches again; a host that lacks what had been safe there knows nothing of the session."""
        if not session.sent or credit.received < session.sent[0].number:
            self._restart((session.host, session.place), now)
            return
        type_ = self._layout.types[session.place]
        for batch in session.sent:
            if credit.received <= batch.number < credit.lost_before and batch.rows is not None:
                self.resent += batch.row_count
                self._deliver(peer, type_, session, batch.number, batch.rows_before, batch.rows, now)

    def reset(self, place: int, peer: Peer, session: int, done: int, elsewhere: list[int], now: float) -> bool:
        """A host has ended a session: sends anew what it has not committed."""
        found = self._found(place, peer, session)
        if found is None:
            return False
        found.credit(done, now)
        index = self._indices[peer]
        moved = [node for node in elsewhere if self.host_of[node] == index]
        self.forget(moved, now, denied=True)
        if self._sessions.get((index, place)) is found:
            self._restart((index, place), now, ends=True)
        return True

    def _found(self, place: int, peer: Peer, session: int) -> RowSession | None:
        found = self._sessions.get((self._indices.get(peer, UNKNOWN), place))
        return found if found is not None and found.number == session else None

    # Time.

    def tick(self, now: float) -> None:
        """Cuts what is due, and asks hosts that do not answer how far they are."""
        if now >= self._look_at:
            self._look_again(now)
        if now < self._due_at and not self._changed:
            return
        for key, session in list(self._sessions.items()):
            if session.sent and now >= self._ask_at(session):
                self._ask(key, session, now)
        for session in list(self._sessions.values()):
            self._send_due(session, now)
        self._due_at = min(map(self._due, self._sessions.values()), default=NEVER)
        self._changed.clear()

    @staticmethod
    def _may_send(session: RowSession) -> bool:
        """Whether another batch may be under way."""
        return len(session.sent) < WINDOW and session.unreceived < UNRECEIVED_MAX

    def _due(self, session: RowSession) -> float:
        """The time of the next batch or question of a session."""
        cut_at = self._cut_at(session) if self._may_send(session) else None
        ask_at = self._ask_at(session) if session.sent else NEVER
        return ask_at if cut_at is None else min(ask_at, cut_at)

    def _ask_at(self, session: RowSession) -> float:
        """The time to ask a host how far it is."""
        return session.progress_at + probe_pause_s(self._options.probe_s, session.unanswered)

    def _ask(self, key: tuple[int, int], session: RowSession, now: float) -> None:
        session.progress_at = now
        session.unanswered += 1
        self._has_stopped = True
        if session.unanswered >= DOUBTED:
            self._doubt(session.host, now)
        if not session.keeps and session.unanswered > UNANSWERED_MAX:
            self.lost += session.under_way
            self._restart(key, now, ends=True)
        else:
            self._probe(self.peers[session.host], session, now)

    def _doubt(self, host: int, now: float) -> None:
        """Asks anew for the host of nodes whose host does not answer."""
        for node in np.flatnonzero(self.host_of == host).tolist():
            self._asked.setdefault(node, now)

    def expect(self, place: int, *, more: bool) -> None:
        """Learns whether the source of a type is behind, so that more comes at once: then its rows wait for full
        batches, unless many do."""
        more = more and 2 * self.pending(place)[0] < self._options.pending_rows_max
        if more != self._has_more[place]:
            self._has_more[place] = more
            self._changed |= dict.fromkeys(self._by_type[place].values())

    def hurry(self, place: int, now: float) -> None:
        """Sends what waits of a type, however little, if its source is not behind."""
        if self._has_more[place]:
            return
        for session in self._by_type[place].values():
            if session.buffered and session.unreceived <= HURRIED_MAX and self._may_send(session):
                self._cut(session, now)

    def flush(self, now: float) -> None:
        """Sends full batches at once. O(sessions that have changed)."""
        if now >= self._look_at:
            self._look_again(now)
        changed, self._changed = self._changed, {}
        for session in changed:
            if self._sessions.get((session.host, session.place)) is not session:
                continue
            if session.buffered >= self._full(session):
                self._send_due(session, now)
            self._due_at = min(self._due_at, self._due(session))

    def _full(self, session: RowSession) -> int:
        """The rows that are sent at once: more where the host is behind, as each batch has its price for both."""
        return self._options.batch_rows if session.unreceived <= HURRIED_MAX else self._rows_max(session)

    def _rows_max(self, session: RowSession) -> int:
        """The rows of the next batch at most."""
        if session.host == self._own:
            return ROWS_MAX
        return max(self._options.batch_rows, min(ROWS_MAX, ROWS_BYTES_MAX // session.row_bytes))

    def _cut_at(self, session: RowSession) -> float | None:
        """The time at which what waits is sent, however little it is."""
        if session.since is None:
            return None
        times = SLOW_MAX if self._has_more[session.place] else min(SLOW_MAX, max(1, session.unreceived))
        return session.since + self._options.cut_s * times

    def _send_due(self, session: RowSession, now: float) -> None:
        while session.buffered and self._may_send(session):
            is_due = (cut_at := self._cut_at(session)) is not None and now >= cut_at
            if session.buffered < self._full(session) and not is_due:
                return
            self._cut(session, now)

    def _cut(self, session: RowSession, now: float) -> None:
        number, before, rows = session.cut(self._rows_max(session), now)
        type_ = self._layout.types[session.place]
        rows = type_.schema.to_frame() if rows is None else rows
        self.sent_rows += rows.height
        self._due_at = min(self._due_at, self._due(session))
        self._deliver(self.peers[session.host], type_, session, number, before, rows, now)

    def next_timer(self) -> float | None:
        """The time of the next batch, question or repetition. O(sessions that have changed)."""
        due = min(self._due_at, self._look_at, *map(self._due, self._changed), *self._asked.values())
        return due if due < NEVER else None

    def questions(self, now: float) -> list[int]:
        """The nodes whose hosts are to be asked for now."""
        due = [node for node, at in self._asked.items() if at <= now]
        for node in due:
            self._asked[node] = now + ASK_AGAIN_S
        return due

    # Views.

    def pending(self, place: int) -> tuple[int, int]:
        """The rows and bytes of a type that wait or are under way."""
        sessions = self._by_type[place].values()
        rows = sum(piece.rows.height for piece in self._waiting[place])
        return rows + sum(one.buffered + one.under_way for one in sessions), sum(one.bytes for one in sessions)

    def has_room(self, place: int) -> bool:
        """Whether more rows of a type may be emitted."""
        rows, size = self.pending(place)
        return rows < self._options.pending_rows_max and size < self._options.pending_bytes_max

    def lowest(self) -> list[int]:
        """The lowest time among the rows of each type that wait or are under way."""
        found = [min((piece.lowest for piece in waiting), default=NEVER) for waiting in self._waiting]
        for (_, place), session in self._sessions.items():
            found[place] = min(found[place], session.lowest)
        return found

    def kept(self, place: int) -> list[pl.DataFrame]:
        """All rows of a guaranteed type that are not safe yet."""
        frames = [piece.rows for piece in self._waiting[place]]
        for session in self._by_type[place].values():
            frames.extend(session.frames())
        return [frame for frame in frames if frame.height]

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits or is under way."""
        return all(self.pending(one.place)[0] == 0 for one in self._layout.types)

    @property
    def sessions(self) -> Iterator[RowSession]:
        """Today's sessions."""
        return iter(self._sessions.values())
