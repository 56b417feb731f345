"""The agents that a logical node may be placed at: who is near its ring keys, alive, and least loaded."""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from typing import NamedTuple

from agent.runtime.keyed.hosting.options import KeyedOptions, Ring
from agent.runtime.keyed.logical_nodes import NODES, ring_key
from overlay import Id, Peer

CHOICES = 4
"""Ring keys of a node whose owners may host it: its own and three more."""


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
        self.roster: tuple[Peer, ...] = ()
        self.loads: dict[Peer, Load] = {}
        self.incarnations: dict[Peer, int] = {ring.me: options.incarnation}
        """The latest start of each agent that is known."""
        self._key = lru_cache(maxsize=CHOICES * NODES)(lambda number: ring_key(app_id, number))

    def key(self, node: int, choice: int = 0) -> Id:
        """One of the ring keys of a node."""
        return self._key(node + NODES * choice)

    def is_root(self, node: int) -> bool:
        """Whether this agent decides on a node."""
        return self._ring.is_root(self.key(node))

    def root(self, node: int) -> Peer:
        """The agent that decides on a node, as far as this one knows."""
        return self.nearest(node, 1)[0]

    def nearest(self, node: int, count: int, choice: int = 0) -> list[Peer]:
        """The live agents closest to a node's ring key."""
        found = self._ring.nearest(self.key(node, choice), count + len(self.dead))
        alive = [peer for peer in found if peer not in self.dead] if self.dead else list(found)
        return (alive or [self._ring.me])[:count]

    def voters(self, node: int) -> tuple[Peer, ...]:
        """The agents that agree on the first configuration of a node: the closest ones on the roster."""
        key = self.key(node)
        closest = sorted(
            self.roster, key=lambda peer: min((peer.node_id - key) % 2**128, (key - peer.node_id) % 2**128)
        )
        return tuple(closest[: self._options.standbys + 1])

    def load(self, peer: Peer) -> Load:
        """The load of an agent, as it was last heard."""
        return self.loads.get(peer, Load(0, 1.0))

    def add_load(self, peer: Peer, nodes: int) -> None:
        """Counts nodes that an agent is about to take, until it says so itself."""
        load = self.load(peer)
        self.loads[peer] = load._replace(hosted=max(0, load.hosted + nodes))

    def candidates(self, node: int) -> list[Peer]:
        """The agents that may host a node: the owners of its ring keys, else those near."""
        owners = dict.fromkeys(self.nearest(node, 1, choice)[0] for choice in range(CHOICES))
        takers = [peer for peer in owners if self.load(peer).takes]
        return takers or [peer for peer in self.nearest(node, 16) if self.load(peer).takes] or list(owners)

    def host(self, node: int) -> Peer:
        """The least loaded agent that may host a node."""
        return min(self.candidates(node), key=lambda peer: self.load(peer).share)

    def standbys(self, node: int, host: Peer) -> tuple[Peer, ...]:
        """The agents that are to hold the commits of a node: its root, and those closest to its ring key."""
        near = [one for one in self.nearest(node, self._options.standbys + 6) if one != host]
        staying = [one for one in near if not self.load(one).is_leaving]
        return tuple(staying[: self._options.standbys])

    def is_gone(self, peer: Peer) -> bool:
        """Whether an agent is dead, and not on the roster any more."""
        return peer in self.dead and peer not in self.roster

    def saw(self, peers: Collection[Peer]) -> None:
        """Takes agents for alive."""
        self.dead -= set(peers)
