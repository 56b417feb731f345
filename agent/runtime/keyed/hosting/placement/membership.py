"""The logical nodes at this agent: those it hosts, stands by for, and decides on as their root."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

import numpy as np
import polars as pl

from agent.runtime.keyed.hosting.commits.commit_log import CommitLog, Pending
from agent.runtime.keyed.hosting.commits.cutting import Cutter
from agent.runtime.keyed.hosting.commits.standby import StandbyStore
from agent.runtime.keyed.hosting.host import Host
from agent.runtime.keyed.hosting.layout import GraphLayout
from agent.runtime.keyed.hosting.options import Bools, Ints, KeyedOptions, Ring
from agent.runtime.keyed.hosting.placement.ballots_wire import ballots_of, messages_of
from agent.runtime.keyed.hosting.placement.configurations import Ballot, Configuration, Configurations, OlderNews
from agent.runtime.keyed.hosting.placement.places import Load, Places
from agent.runtime.keyed.hosting.placement.roots import HOSTING, Roots
from agent.runtime.keyed.hosting.placement.standby_records import StandbyRecords
from agent.runtime.keyed.hosting.rows.emitter import Emitter
from agent.runtime.keyed.hosting.rows.outgoing import NEVER
from agent.runtime.keyed.hosting.rows.selection import Events
from agent.runtime.keyed.logical_nodes import NODES, BegunNodes
from agent.runtime.messages.elements import (
    CommitHeld,
    CommitProbe,
    CommitRecord,
    ElementLoad,
    ElementReset,
    FindHosts,
    MoveNodes,
    NodeBallots,
    NodeHosts,
    NodesMoved,
)
from agent.runtime.model.fields import Message
from overlay import Id, Peer

Send = Callable[[Peer, Message, float], None]
FROZEN_S = 8.0
"""Time after which a node that was to move takes rows again, where its new host holds no more of what goes there, or
nothing has come of what it holds."""
TELL_S = 5.0
"""Time after which roots are told again of the nodes here."""
DENY_S = 1.0
"""Time between messages that say that this agent is not the host that it should be."""
LOAD_S = 0.5
READ_RECORDS = 4
"""Records that are read at a time, while no step of event time is passed: commits wait for their standbys then."""
GONE_S = 0.3
"""Time after the last node has gone for which this agent passes on what still comes, before it leaves."""
ANEW_SEQ_BITS = 28
"""Low bits of the numbers of events that a node emits in the epoch in which it was begun anew."""


class NodeMembership:
    """Takes part in decisions on nodes, and carries them out."""

    def __init__(
        self,
        app_id: Id,
        layout: GraphLayout,
        options: KeyedOptions,
        ring: Ring,
        emitter: Emitter,
        host: Host,
        send: Send,
        on_unsure: Callable[[str, pl.DataFrame], None],
    ) -> None:
        self._on_unsure = on_unsure
        self.app_id, self._layout, self._options, self._ring = app_id, layout, options, ring
        self._me, self._emitter, self._host, self._send = ring.me, emitter, host, send
        compact = {
            place: options.compact[one.name] for place, one in enumerate(layout.elements) if one.name in options.compact
        }
        self._changes: list[tuple[int, Configuration | None, Configuration]] = []
        self._known = Configurations(self._me, options.incarnation, lambda *change: self._changes.append(change))
        self._before = options.begun_before.epochs
        self._places = Places(app_id, ring, options)
        self._has_unguaranteed = len(layout.guaranteed) < len(layout.keyed)
        self._roots = Roots(
            self._me,
            self._known,
            self._places,
            options,
            self._say,
            majority=bool(layout.guaranteed),
            waits_for_hosts=self._has_unguaranteed,
            begun=lambda: int(np.count_nonzero(emitter.epochs)),
        )
        self._store = StandbyStore(len(layout.elements), layout.by_name, compact)
        self._log = CommitLog(app_id, options.incarnation, send, self._release)
        self._cutter = Cutter(layout, options, host, emitter, self._log, self._known.epoch, self._moved)
        self._out: dict[tuple[Peer, str], list[Ballot]] = {}
        self._questions: dict[int, set[Peer]] = {}
        self._frozen: dict[int, float] = {}
        self._movers: dict[int, tuple[Peer, Peer]] = {}
        """The root that has asked for it, and the agent to go to, of nodes that are frozen."""
        self._given: dict[int, int] = {}
        """The number of the copy that the new host of a node that is frozen holds."""
        self._records = StandbyRecords(
            app_id, layout, options, self._known, self._store, host, send, self._say, self._flush
        )
        self._is_leaving = False
        self._gone_at = -GONE_S
        self._told_load: tuple[int, bool] | None = None
        self._load_at = -LOAD_S
        self._tell_at = self._deny_at = 0.0
        self._voted: set[tuple[int, int]] = set()
        self._older = OlderNews()
        self.lost: set[int] = set()
        self._refused = 0

    # Messages.

    def take(self, message: Message, sender: Peer, now: float) -> bool:
        """Takes a message about nodes; False: it is not of use."""
        match message:
            case NodeBallots():
                self._ballots(message, sender, now)
            case FindHosts():
                self.find(message, now)
            case NodeHosts(peers=peers, hosts=hosts):
                if any(place >= len(peers) for _, _, place in hosts):
                    self._refused += 1
                    return False
                self._learn({node: (epoch, peers[place]) for node, epoch, place in hosts}, now)
            case CommitRecord():
                self._records.record(message, sender, now)
            case CommitProbe():
                self._records.probed(message, sender, now)
            case CommitHeld():
                self._held(message, sender, now)
            case MoveNodes(nodes=nodes, epochs=epochs, to=to):
                self._freeze(nodes, epochs, to, sender, now)
            case NodesMoved(nodes=nodes, epochs=epochs, to=to, copy_number=number):
                for node, epoch in zip(nodes, epochs, strict=False):
                    self._roots.moved(node, epoch, to, number, now)
            case ElementLoad(peer=peer, hosted=hosted, weight=weight, is_leaving=is_leaving):
                self._places.began(peer, message.incarnation)
                if peer != self._me:
                    self._load_of(peer, Load(hosted, weight, is_leaving), now)
                if message.asks and sender == peer:
                    self._send(peer, self._load_here(), now)
            case _:
                return False
        return True

    def _load_of(self, peer: Peer, load: Load, now: float) -> None:
        """Learns the load of an agent: at once whether it takes nodes, soon how many it has."""
        before = self._places.heard(peer, load)
        if (before.weight, before.is_leaving) != (load.weight, load.is_leaving):
            self._roots.review_soon()
        elif before != load:
            self._roots.changed(now)

    @property
    def refused(self) -> int:
        """Messages and records that were not sound."""
        return self._refused + self._records.refused + self._store.refused

    def alive(self, peer: Peer) -> None:
        """An agent has said something."""
        if self._places.saw(peer):
            self._roots.review_soon()

    def _ballots(self, message: NodeBallots, sender: Peer, now: float) -> None:
        phase = message.phase
        if phase in ("prepare", "accept"):
            self._store.read()  # what is not sound is no copy to vote with
        for ballot in ballots_of(message):
            node = ballot.node
            if phase == "prepare":
                self._catch_up(ballot, now)
                phase_back, answer = self._known.prepare(ballot, self._copy(node))
                self._say(phase_back, sender, answer._replace(has_forgotten=self._has_forgotten(node)))
            elif phase == "accept":
                self._say(*self._answer(self._known.accept(ballot, is_late=self._is_late(ballot)), sender))
            elif phase == "chosen":
                if not self._known.learn(node, ballot.value):
                    self._roots.settled(node)
                    self._correct(ballot, sender)
            else:
                self._roots.heard(phase, ballot, sender, now)

    def _catch_up(self, ballot: Ballot, now: float) -> None:
        """Takes the configuration before the one that is asked about, which may make this agent the host."""
        if (
            ballot.value is not None
            and ballot.value.epoch < ballot.epoch
            and self._known.learn(ballot.node, ballot.value)
        ):
            changes, self._changes = self._changes, []
            self._carry_out(changes, now)

    def _correct(self, ballot: Ballot, sender: Peer) -> None:
        """Tells an agent that is behind which configuration is in force."""
        known, epoch = self._known[ballot.node], 0 if ballot.value is None else ballot.value.epoch
        if known is not None and epoch < known.epoch and sender != self._me:
            self._say("chosen", sender, Ballot(ballot.node, known.epoch, 0, known))

    @staticmethod
    def _answer(answer: tuple[str, Ballot], sender: Peer) -> tuple[str, Peer, Ballot]:
        return answer[0], sender, answer[1]

    def _copy(self, node: int) -> tuple[int, int]:
        """The copy of a node here; of epoch 0 for none, with the epoch in which it is known to have been where it is
        not known who has it. A host that has taken nothing yet knows no more than anybody: it may have begun anew."""
        if not self._host.owned[node]:
            version = self._store.version(node)
            is_known = version[0] or self._known[node] is not None
            return version if is_known else (0, int(max(self._emitter.epochs[node], self._before[node])))
        return self._known.epoch(node), HOSTING if self._host.touched[node] else 0

    def _is_late(self, ballot: Ballot) -> bool:
        """Whether something has been committed here since this agent's promise that a configuration leaves out: after
        the copy of a move, or at all, where the node begins anew as nobody was known to have anything. Where a voter
        has accepted that before, it holds nothing, so nothing has been released."""
        node, value, copy = ballot.node, ballot.value, self._store.version(ballot.node)
        is_host = bool(self._host.owned[node])
        if value is not None and value.move_number:
            given = self._given.get(node)
            return given != value.move_number if is_host else copy > (ballot.epoch - 1, value.move_number)
        if value is None or not value.is_anew or ballot.accepted:
            return False
        return bool(self._host.touched[node]) if is_host else copy[0] == ballot.epoch - 1 > 0

    def _has_forgotten(self, node: int) -> bool:
        """Whether the process before knew a node of which this one knows nothing."""
        is_known = self._known[node] is not None or self._emitter.epochs[node] > 0
        return bool(self._before[node]) and not is_known

    def _say(self, phase: str, peer: Peer, ballot: Ballot) -> None:
        self._out.setdefault((peer, phase), []).append(ballot)

    def _flush(self, now: float) -> None:
        while self._out:
            out, self._out = self._out, {}
            for (peer, phase), ballots in out.items():
                for message in messages_of(self.app_id, phase, ballots):  # type: ignore[arg-type]
                    self._send(peer, message, now)

    # Questions for hosts.

    def ask(self, now: float) -> None:
        """Asks the roots of nodes for hosts that emitters here need."""
        grouped: dict[Peer, list[int]] = {}
        for node in self._emitter.questions(now):
            if node in self._frozen:
                continue  # it takes rows again where it is to be
            if (known := self._known[node]) is not None and known.epoch > self._emitter.denied[node]:
                self._learn({node: (known.epoch, known.host)}, now)
                if self._emitter.host(node) is not None:
                    continue
            grouped.setdefault(self._places.root(node), []).append(node)
        for peer, nodes in grouped.items():
            message = self._question(self._me, nodes)
            if peer == self._me:
                self.find(message, now)
            else:
                self._send(peer, message, now)

    def _learn(self, hosts: Mapping[int, tuple[int, Peer]], now: float) -> None:
        """Lets the emitter here know hosts of nodes. Of those that are dead some agents learn late: they are none, and
        are asked for still."""
        alive = {node: one for node, one in hosts.items() if one[1] not in self._places.dead}
        gone = [node for node, (epoch, _) in hosts.items() if node not in alive and epoch > self._emitter.epochs[node]]
        self._emitter.forget(gone, now)
        told = {node: epoch for node, (epoch, _) in alive.items() if epoch < self._emitter.epochs[node]}
        for node in self._older.believed(told, now):
            self._emitter.epochs[node] = self._emitter.denied[node] = told[node] - 1
        self._emitter.learn(alive, now)

    def _question(self, asker: Peer, nodes: list[int]) -> FindHosts:
        denied, known = self._emitter.denied[nodes].tolist(), self._emitter.epochs[nodes].tolist()
        return FindHosts(self.app_id, asker, nodes, denied, known)

    def find(self, message: FindHosts, now: float) -> None:
        """Answers with hosts, now or when they are known; passes on what others are to answer."""
        known: list[int] = []
        others: dict[Peer, list[tuple[int, int, int]]] = {}
        for place, (node, denied) in enumerate(zip(message.nodes, message.denied, strict=False)):
            heard = message.known[place] if place < len(message.known) else 0
            found = self._known[node]
            if found is not None and found.epoch > denied and self._is_settled(node, found):
                known.append(node)
            elif self._places.is_root(node):
                self._questions.setdefault(node, set()).add(message.asker)
                if found is None:
                    self._roots.want(node, now, heard)
                elif found.epoch <= denied or found.host in self._places.dead:
                    self._roots.doubt(node, now, is_sure=message.asker == found.host)
            elif (root := self._places.nearer_root(node)) is not None:
                others.setdefault(root, []).append((node, denied, heard))
        for root, asked in others.items():
            self._send(root, FindHosts(self.app_id, message.asker, *map(list, zip(*asked, strict=True))), now)
        if known:
            self.tell_hosts(message.asker, known, now)

    def _is_settled(self, node: int, known: Configuration) -> bool:
        return known.host not in self._places.dead and not self._roots.is_unsettled(node)

    def tell_hosts(self, peer: Peer, nodes: Iterable[int], now: float) -> None:
        """Tells an emitter of the hosts of nodes, as far as they are known."""
        if (message := self._hosts_of(nodes)).hosts:
            self._send(peer, message, now)

    def _hosts_of(self, nodes: Iterable[int]) -> NodeHosts:
        peers: dict[Peer, int] = {}
        found = [(node, known) for node in nodes if (known := self._known[node]) is not None]
        hosts = [(node, known.epoch, peers.setdefault(known.host, len(peers))) for node, known in found]
        return NodeHosts(self.app_id, list(peers), hosts)

    # Copies.

    def _release(self, pending: Pending, now: float) -> None:
        self._cutter.release(pending, now)

    def _held(self, answer: CommitHeld, sender: Peer, now: float) -> None:
        if self._log.has_forgotten(sender, answer):
            self._cutter.again(sender)
        else:
            self._log.held(sender, answer, now)

    # Moves.

    def _freeze(self, nodes: list[int], epochs: list[int], to: Peer, root: Peer, now: float) -> None:
        asked = [node for node, epoch in zip(nodes, epochs, strict=False) if self._known.epoch(node) == epoch]
        moving = [node for node in asked if self._host.open[node] and to != self._me]
        again = [node for node in asked if node in self._given and self._movers[node] == (root, to)]
        for node in moving:
            self._frozen[node] = now
            self._movers[node] = root, to
        self._host.open[moving] = False
        if moving:
            self._cutter.move(to, np.array(moving))
        self._tell_moved(again, now)

    def _moved(self, mask: Bools, commit: int) -> None:
        """The agents that are to host nodes hold the copy in a commit."""
        moved = [node for node in np.flatnonzero(mask).tolist() if node in self._frozen]
        for node in moved:
            self._given[node], self._frozen[node] = commit, self._host.now
        self._tell_moved(moved, self._host.now)

    def _tell_moved(self, nodes: list[int], now: float) -> None:
        """Tells roots which copies are where the nodes are to be hosted."""
        grouped: dict[tuple[Peer, Peer, int], list[int]] = {}
        for node in nodes:
            grouped.setdefault((*self._movers[node], self._given[node]), []).append(node)
        for (root, to, commit), some in grouped.items():
            epochs = [self._known.epoch(node) for node in some]
            self._send(root, NodesMoved(self.app_id, some, epochs, to, commit), now)

    def _thaw(self, now: float) -> None:
        """Lets nodes take rows again whose move has come to nothing, and tells the root at once where their state is
        not on its way any more: emitters learn nothing of their host until it knows."""
        moving = self._cutter.moving if self._frozen else ()
        ended: dict[Peer, list[tuple[int, int]]] = {}
        for node, since in list(self._frozen.items()):
            (root, to), is_given = self._movers[node], node in self._given
            progress_at = since if is_given else max(since, self._log.progress_at(to))
            has_ended = not (is_given or moving[node])
            is_over = has_ended or now >= progress_at + FROZEN_S or to in self._places.dead
            if not self._host.owned[node]:
                self._melt(node)
            elif is_over and not self._known.has_voted(node):
                self._stay([node])
                if has_ended:
                    ended.setdefault(root, []).append((node, self._known.epoch(node)))
        self._tell_doubts(ended, now)

    def _stay(self, nodes: list[int]) -> None:
        for node in nodes:
            self._melt(node)
        self._host.reopen(nodes)
        self._cutter.stay(np.array(nodes))

    def _melt(self, node: int) -> None:
        self._frozen.pop(node, None)
        self._given.pop(node, None)

    # Decisions that are known.

    def settle(self, now: float) -> None:
        """Carries out what has been decided."""
        while self._changes:
            changes, self._changes = self._changes, []
            self._carry_out(changes, now)
        self._records.take_all(now)
        self._cutter.tick(now)
        self._host.unpark(lambda node: self._emitter.host(node) == self._me)
        self._flush(now)

    def _carry_out(self, changes: list[tuple[int, Configuration | None, Configuration]], now: float) -> None:
        latest = {node: value for node, _, value in changes}
        self._roots.changed(now)
        for node, before, value in changes:
            is_conflict = before is not None and before.epoch == value.epoch and value.host != self._me
            if is_conflict and self._host.owned[node] and self._host.touched[node]:
                self.lost.add(node)  # two sides had begun it
        lost: list[int] = []
        gone: list[int] = []
        moved: Bools = np.zeros(NODES, bool)
        puts: list[int] = []
        stays: list[int] = []
        for node, value in latest.items():
            self._roots.settled(node)
            if not self._known.is_host_of(value):
                if self._host.owned[node]:
                    gone.append(node)
                    moved[node] = node in self._frozen and value.move_number > 0
                if self._me not in value.members and self._store.version(node)[0] < value.epoch:
                    lost.append(node)  # a copy of this epoch was made to be hosted here in the next
            elif self._host.owned[node]:
                stays.append(node)
            elif value.is_anew:
                self._begin_anew(node, value)
            elif self._store.version(node)[0]:
                puts.append(node)
        if gone:
            self._host.lose(np.array(gone))
            for name, rows in self._cutter.lose(np.array(gone), moved):
                self._on_unsure(name, rows)
            for stream in self._host.streams.interrupt():
                message = ElementReset(self.app_id, stream.place, stream.session, stream.done)
                self._send(stream.peer, message, now)
            self._gone_at = now
            for peer in self._host.streams.peers - {self._me}:
                self.tell_hosts(peer, gone, now)
            if self._is_leaving:  # those who have heard of this host, and sent it nothing yet, would find nobody
                self._ring.multicast(self._hosts_of(gone), now)
        self._update_standbys()
        if stays:
            self._stay(stays)
        if puts:
            self._resume(np.array(puts), latest)
        if lost:
            self._store.drop(np.array(lost))
        self._learn({node: (value.epoch, value.host) for node, value in latest.items()}, now)
        self._answer_questions(latest, now)

    def _begin_anew(self, node: int, value: Configuration) -> None:
        self._store.drop(np.array([node]))
        first = np.array([value.epoch << ANEW_SEQ_BITS]) if value.epoch > 1 else None
        self._host.gain(np.array([node]), first)
        if value.is_lost or (self._has_unguaranteed and value.epoch > 1):
            self.lost.add(node)

    def _resume(self, nodes: Ints, values: Mapping[int, Configuration]) -> None:
        """Goes on from copies. Those that were made for a move have all that is not guaranteed, too, if it is this
        move that has come about."""
        if self._has_unguaranteed:
            moved = {node for node in nodes.tolist() if self._store.is_move(node) and values[node].move_number}
            self.lost |= set(nodes.tolist()) - moved
        self.lost |= {node for node in nodes.tolist() if values[node].is_lost}
        self._cutter.put(self._store.copy(nodes), nodes)
        self._store.drop(nodes)

    def _answer_questions(self, latest: dict[int, Configuration], now: float) -> None:
        answers: dict[Peer, list[int]] = {}
        for node in latest:
            for asker in self._questions.pop(node, ()):
                answers.setdefault(asker, []).append(node)
        for asker, nodes in answers.items():
            self.tell_hosts(asker, nodes, now)

    def _update_standbys(self) -> None:
        masks: dict[Peer, Bools] = {peer: np.zeros(NODES, bool) for peer in self._cutter.standbys}
        if self._layout.guaranteed:
            for node in np.flatnonzero(self._host.owned).tolist():
                known = self._known[node]
                for peer in known.standbys if known is not None else ():
                    masks.setdefault(peer, np.zeros(NODES, bool))[node] = True
        for node, known in self._known.all():
            if self._known.is_host_of(known) and self._store.version(node)[0] and not self._host.owned[node]:
                for peer in known.standbys:
                    masks.setdefault(peer, np.zeros(NODES, bool))[node] = bool(self._layout.guaranteed)
        for peer, mask in masks.items():
            self._cutter.set_standbys(peer, mask)
        self._host.collects = self._host.collects or bool(self._cutter.standbys)

    # Members.

    def members(self, peers: Collection[Peer], now: float) -> None:
        """Learns who takes part in the job."""
        if self._places.members(peers):
            self._roots.review_soon()
        for node in self._questions:
            self._roots.want(node, now)

    def failed(self, peer: Peer, now: float) -> None:
        """Learns that an agent is dead."""
        self._places.failed(peer)
        self._emitter.failed(peer, now)
        self._host.streams.failed(peer)
        self._cutter.again(peer)
        self._records.forget(peer)
        self.neighbours_changed(now)

    def neighbours_changed(self, now: float) -> None:
        """Learns that agents near to this one have come or gone."""
        self._tell_at = now
        self._roots.review_soon()

    def leave(self, now: float) -> None:
        """Begins to hand over everything."""
        self._is_leaving = True
        self._load_at = now - LOAD_S
        self._roots.review_soon()

    @property
    def has_left(self) -> bool:
        """Whether nothing is left here."""
        if not self._is_leaving or self._host.now < self._gone_at + GONE_S:
            return False
        is_alone = not [peer for peer in self._places.roster if peer != self._me and peer not in self._places.dead]
        is_elsewhere = not any(self._known.is_in(known) for _, known in self._known.all())
        return is_alone or (is_elsewhere and not self._cutter.pledges.events)

    # Time.

    def tick(self, now: float) -> None:
        """Does what is due."""
        self._thaw(now)
        if now >= self._host.passing_until:
            self._store.read(READ_RECORDS)
        load = self._load
        if self._places.heard(self._me, load) != load:
            self._roots.changed(now)
        if now >= self._load_at + LOAD_S and self._told_load != (load.hosted, load.is_leaving):
            self._load_at, self._told_load = now, (load.hosted, load.is_leaving)
            self._ring.multicast(self._load_here(), now)
        self.ask(now)
        grouped: dict[tuple[Peer, Peer], list[tuple[int, int]]] = {}
        for node, known, to in self._roots.tick(now):
            grouped.setdefault((known.host, to), []).append((node, known.epoch))
        for (host, to), moves in grouped.items():
            message = MoveNodes(self.app_id, [node for node, _ in moves], [epoch for _, epoch in moves], to)
            self._send(host, message, now)
        if now >= self._tell_at:
            self._tell_at = now + TELL_S
            self._tell_roots()
            self._ask_the_dead(now)
        if now >= self._deny_at:
            self._deny_at = now + DENY_S
            self._deny(now)
        self._flush(now)

    def _deny(self, now: float) -> None:
        """Tells roots of nodes that this agent cannot have, as it has no copy of their state or was started again since
        it had, and of those of which it has voted for another configuration that nothing has come of."""
        denied: dict[Peer, list[tuple[int, int]]] = {}
        voted, self._voted = self._voted, self._known.voted()
        for node, known in self._known.all():
            is_waiting = (node, known.epoch) in self._voted & voted
            is_forgotten = self._me in known.members and not self._known.is_in(known)
            if is_waiting or is_forgotten or (known.host == self._me and not self._host.owned[node]):
                denied.setdefault(self._places.root(node), []).append((node, known.epoch))
        self._tell_doubts(denied, now)

    def _tell_doubts(self, doubted: Mapping[Peer, list[tuple[int, int]]], now: float) -> None:
        """Has roots agree on the hosts of nodes anew, unless they know newer ones than those of these epochs."""
        for root, nodes in doubted.items():
            message = FindHosts(self.app_id, self._me, [node for node, _ in nodes], [epoch for _, epoch in nodes])
            if root == self._me:
                self.find(message, now)
            else:
                self._send(root, message, now)

    @property
    def _load(self) -> Load:
        return Load(int(self._host.owned.sum()), self._options.weight, self._is_leaving)

    def _load_here(self, *, asks: bool = False) -> ElementLoad:
        return ElementLoad(self.app_id, self._me, *self._load, incarnation=self._options.incarnation, asks=asks)

    def _ask_the_dead(self, now: float) -> None:
        """Asks agents that are taken for dead, and still take part: those who had been cut off from each other would
        have nothing to say to each other."""
        for peer in self._places.roster:
            if peer in self._places.dead:
                self._send(peer, self._load_here(asks=True), now)

    def _tell_roots(self) -> None:
        """Tells roots of the nodes here; their other members, too, which may have been started again and forgotten."""
        for node, known in self._known.all():
            if self._known.is_in(known):
                for peer in {self._places.root(node), *known.members} - {self._me}:
                    self._say("chosen", peer, Ballot(node, known.epoch, 0, known))

    def next_timer(self) -> float | None:
        """The time of the next thing to be done."""
        due = [self._roots.next_timer(), self._tell_at, self._log.next_timer(), self._cutter.next_timer()]
        return min(at for at in due if at is not None)

    # Views.

    def lowest(self) -> dict[str, int]:
        """The lowest time of events that are not committed yet, by type."""
        found: dict[str, int] = {}
        for name, rows in [*self._log.unreleased(), *self._cutter.unreleased()]:
            found[name] = min(found.get(name, NEVER), self._emitter.wrong_clocks.lowest(rows))
        return found

    @property
    def is_idle(self) -> bool:
        """Whether nothing is to be committed or moved."""
        return not self._cutter.is_busy and not self._frozen

    @property
    def pledged(self) -> Events:
        """The events that only this agent gives to the job's query, once it may."""
        return self._cutter.pledges.pledged

    @property
    def begun(self) -> BegunNodes:
        """The nodes that this process and those before it know to have been begun."""
        return BegunNodes.of(np.maximum(self._before, self._emitter.epochs))

    @property
    def known(self) -> Bools:
        """The nodes that have been begun, as far as this agent knows."""
        return self._known.is_known

    @property
    def under_replicated(self) -> set[int]:
        """The nodes here that fewer agents stand by for, with their state, than there are to be; and those decided on
        here that have no host that is alive. O(known nodes)."""
        if not self._layout.guaranteed:
            return set()
        places, found = self._places, set()
        wanted = min(self._options.standbys, sum(peer not in places.dead for peer in places.roster) - 1)
        held = {peer: self._cutter.held_by(peer) for peer in self._cutter.standbys}
        for node, known in self._known.all():
            if self._host.owned[node]:
                standbys = [peer for peer in known.standbys if peer in held and places.is_in(peer, known)]
                if sum(bool(held[peer][node]) for peer in standbys) < wanted:
                    found.add(node)
            elif places.is_root(node) and not places.is_in(known.host, known):
                found.add(node)
        return found

    def epoch(self, node: int) -> int:
        """The epoch of a node, as far as this agent knows."""
        return self._known.epoch(node)

    @property
    def stuck(self) -> set[int]:
        """Nodes that wait for a majority."""
        return self._roots.stuck
