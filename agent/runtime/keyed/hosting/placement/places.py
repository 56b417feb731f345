"""The agents that a logical node may be placed at: who is near its ring keys, alive, and least loaded."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection
from functools import lru_cache
from typing import NamedTuple

from agent.runtime.keyed.hosting.options import KeyedOptions, Ring
from agent.runtime.keyed.hosting.placement.configurations import Configuration
from agent.runtime.keyed.hosting.placement.even import CHOICES, KeyOwners, placed_evenly
from agent.runtime.keyed.logical_nodes import NODES, ring_key
from overlay import Id, Peer, distance

EXPECTED_S = 1.0
"""Time after which a node that was placed at an agent is in what that agent tells of its load."""

HEARD_SHARE = 0.9
"""Share of the nodes that have begun of which agents must have told before loads are compared."""


class Load(NamedTuple):
    """The nodes that an agent hosts, and its weight."""

    hosted: int
    weight: float
    is_leaving: bool = False

    @property
    def share(self) -> float:
        """The load by weight, with one node more."""
        return (self.hosted + 1) / self.weight if self.weight > 0 else float("inf")

    @property
    def takes(self) -> bool:
        """Whether nodes may be placed there."""
        return self.weight > 0 and not self.is_leaving


class Places:
    """Chooses hosts and standbys, from what this agent knows of its peers."""

    def __init__(self, app_id: Id, ring: Ring, options: KeyedOptions) -> None:
        self._app_id, self._ring, self._options = app_id, ring, options
        self.dead: set[Peer] = set()
        self.incarnations: dict[Peer, int] = {ring.me: options.incarnation}
        """The latest start of each agent that is known."""
        self._everybody = KeyOwners(())
        self._members: KeyOwners | None = None
        self._nearest: dict[tuple[Id, int], list[Peer]] = {}
        self._loads: dict[Peer, Load] = {}
        self._even: tuple[dict[Peer, float], list[Peer]] = ({}, [])
        self._placed: deque[tuple[float, Peer, int]] = deque()
        self._expected: Counter[Peer] = Counter()
        self._key = lru_cache(maxsize=CHOICES * NODES)(lambda number: ring_key(app_id, number))

    def key(self, node: int, choice: int = 0) -> Id:
        """One of the ring keys of a node."""
        return self._key(node + NODES * choice)

    @property
    def roster(self) -> tuple[Peer, ...]:
        """The agents that take part, in the order of the ring."""
        return self._everybody.peers

    def is_root(self, node: int) -> bool:
        """Whether this agent decides on a node."""
        return self.root(node) == self._ring.me

    def root(self, node: int) -> Peer:
        """The agent that decides on a node, as far as this one knows."""
        return self.nearest(node, 1)[0]

    def nearer_root(self, node: int) -> Peer | None:
        """The agent that decides on a node, if it is nearer to the node's key than this one: what is passed on to it
        goes round in no circle, whatever agents know of the roster."""
        root, key = self.root(node), self.key(node)
        return root if distance(key, root.node_id) < distance(key, self._ring.me.node_id) else None

    def nearest(self, node: int, count: int, choice: int = 0) -> list[Peer]:
        """The live agents of the roster closest to a ring key of a node: others have no part in the job, and do not
        answer. While there is no roster, those that the ring knows."""
        key = self.key(node, choice)
        if not self.roster:
            return self._in_ring(key, count)
        if self._members is None:
            alive = [peer for peer in self.roster if peer not in self.dead]
            self._members, self._nearest = KeyOwners(alive or [self._ring.me]), {}
        found = self._nearest.get((key, count))
        if found is None:
            found = self._nearest[key, count] = self._members.nearest(key, count)
        return found

    def _in_ring(self, key: Id, count: int) -> list[Peer]:
        found = self._ring.nearest(key, count + len(self.dead))
        return [peer for peer in found if peer not in self.dead][:count] or [self._ring.me]

    def voters(self, node: int) -> tuple[Peer, ...]:
        """The agents that agree on the first configuration of a node: the closest ones on the roster."""
        return tuple(self._everybody.nearest(self.key(node), self._options.standbys + 1))

    def heard(self, peer: Peer, load: Load) -> Load:
        """Learns the load of an agent; returns the one before."""
        before, self._loads[peer] = self._told(peer), load
        return before

    def _told(self, peer: Peer) -> Load:
        return self._loads.get(peer, Load(0, 1.0))

    def load(self, peer: Peer) -> Load:
        """The load of an agent, as it was last heard, with the nodes that have just been placed there."""
        load = self._told(peer)
        return load._replace(hosted=max(0, load.hosted + self._expected[peer]))

    @property
    def is_emptying(self) -> bool:
        """Whether an agent that leaves still hosts nodes, as far as this one has heard."""
        return any(load.is_leaving and load.hosted for load in self._loads.values())

    def has_heard_of(self, begun: int) -> bool:
        """Whether so many nodes are in what agents have told of their loads, or nearly: else it is old."""
        return sum(self._told(peer).hosted for peer in self.roster) >= HEARD_SHARE * begun

    def place(self, peer: Peer, nodes: int, now: float) -> None:
        """Counts nodes that an agent is about to take, or to give, until it says so itself."""
        self._placed.append((now + EXPECTED_S, peer, nodes))
        self._expected[peer] += nodes

    def settle(self, now: float) -> None:
        """Forgets what agents have had the time to tell themselves."""
        while self._placed and self._placed[0][0] <= now:
            _, peer, nodes = self._placed.popleft()
            self._expected[peer] -= nodes

    def turns(self, to: Peer, host: Peer, now: float) -> int:
        """The number of nodes that this agent may move between two hosts now, to even out their loads. All roots hear
        of the same loads: where there are more of them than nodes to move, they take turns."""
        high, low = self.load(host), self.load(to)
        lacking = int((high.hosted / high.weight - low.hosted / low.weight) * low.weight / 2)
        roots = max(1, len(self.roster))
        return lacking // roots or int((int(now) + self._ring.me.node_id) % roots < lacking)

    def candidates(self, node: int) -> list[Peer]:
        """The agents that may host a node: the owners of its ring keys, else those near."""
        owners = dict.fromkeys(self.nearest(node, 1, choice)[0] for choice in range(CHOICES))
        takers = [peer for peer in owners if self.load(peer).takes]
        return takers or [peer for peer in self.nearest(node, 16) if self.load(peer).takes] or list(owners)

    def host(self, node: int) -> Peer:
        """The least loaded agent that may host a node, of those that have said which start of theirs it is."""
        candidates = self.candidates(node)
        known = [peer for peer in candidates if peer in self.incarnations]
        return min(known or candidates, key=lambda peer: self.load(peer).share)

    def first_host(self, node: int) -> Peer:
        """The agent that a node begins at: no agent has told its load yet, so all roots place all nodes alike, but for
        those of agents that have not said yet which start of theirs it is, and would take themselves for no members."""
        weights = {peer: load.weight if (load := self._told(peer)).takes else 0.0 for peer in self.roster}
        if not weights:
            return self.host(node)
        if weights != self._even[0]:
            self._even = weights, placed_evenly(self.key, weights)
        host = self._even[1][node]
        is_there = host in self.incarnations and host not in self.dead
        return host if is_there and self.load(host).takes else self.host(node)

    def standbys(self, node: int, host: Peer) -> tuple[Peer, ...]:
        """The agents that are to hold the commits of a node: its root, and those closest to its ring key."""
        near = [one for one in self.nearest(node, self._options.standbys + 6) if one != host]
        staying = [one for one in near if not self.load(one).is_leaving]
        return tuple(staying[: self._options.standbys])

    def is_in(self, peer: Peer, value: Configuration) -> bool:
        """Whether a member of a configuration is alive, and has not been started again, as far as is known."""
        incarnation = self.incarnations.get(peer)
        return peer not in self.dead and (incarnation is None or value.has(peer, incarnation))

    def is_gone(self, peer: Peer) -> bool:
        """Whether an agent is dead, and not on the roster any more. One that had died before this process began is
        not known here: it has said nothing, and is not on the roster either."""
        return peer not in self.roster and (peer in self.dead or peer not in self.incarnations)

    def began(self, peer: Peer, incarnation: int) -> None:
        """Learns of a start of an agent, which may be an older one."""
        self.incarnations[peer] = max(incarnation, self.incarnations.get(peer, 0))

    def members(self, peers: Collection[Peer]) -> bool:
        """Learns who takes part; False if that is known."""
        everybody = KeyOwners(peers)
        if everybody.peers == self.roster:
            return False
        self._everybody, self._members = everybody, None
        return True

    def saw(self, peer: Peer) -> bool:
        """Takes an agent for alive; False if it was."""
        if peer not in self.dead:
            return False
        self.dead.discard(peer)
        self._members = None
        return True

    def failed(self, peer: Peer) -> None:
        """Takes an agent for dead."""
        self.dead.add(peer)
        self._members = None
