"""Takes, compares and verifies epochs, which decide between roots.

Theory. A new root takes an epoch above every one it knows of: its own earlier ones (the shell keeps them over
restarts), the previous root's, those its replicas and children report. A root that hears of a higher one while it is
the closest node takes one above it. So epochs only grow, and anything with a lower one is refused.

A child learns the epoch from its parent. It believes it if the named root is the closest node it knows of itself. If it
knows a closer one, or the counter has jumped, it asks the node closest to the key (RootQuery, routed hop by hop) and
believes the answer; meanwhile it stays in the tree with its previous epoch. These queries are spread over time and
bounded.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from overlay.core.events import EpochTaken
from overlay.core.random_source import jittered
from overlay.pastry.membership.membership import Membership
from overlay.scribe.group import Group
from overlay.scribe.tree_state import TreeState
from overlay.wire.epoch import COUNTER_MAX, NEVER, TreeEpoch
from overlay.wire.ids import Id, closer
from overlay.wire.messages import HOPS_MAX, RootAnswer, RootQuery
from overlay.wire.peer import Peer
from overlay.wire.tree_fields import Frontier

TAKEN_MAX = 4_096
QUERY_S = 0.5
QUERIES_AT_ONCE_MAX = 32
QUERY_ATTEMPTS_MAX = 3

Believed = Callable[[Group, Frontier, Peer, float], None]


@dataclass(slots=True)
class _Claim:
    """An epoch reported by a parent and not believed yet."""

    group: Group
    epoch: TreeEpoch
    frontier: Frontier
    source: Peer
    attempts: int = 0


class Epochs:
    """One node's epochs. `believed` is called with a parent's report once it has been verified."""

    def __init__(self, trees: TreeState, membership: Membership, taken: Mapping[Id, int], believed: Believed) -> None:
        self._membership = membership
        self._own = trees.own
        self._outbound = trees.outbound
        self._outbox = trees.outbox
        self._index = trees.index
        self._random = trees.random
        self._believed = believed
        self.taken: dict[Id, int] = {}
        """Counters of the epochs this node took, the last TAKEN_MAX of them."""
        for key, counter in taken.items():
            self._note(key, counter)
        self._claims: dict[Id, _Claim] = {}
        self._at: float | None = None

    # At the root.

    def take(self, group: Group, before: TreeEpoch) -> None:
        """Begin an epoch as the root, above the previous root's and all others known."""
        known = max(group.epoch.counter, group.heard.counter, before.counter, self.taken.get(group.key, 0))
        epoch = TreeEpoch(min(known + 1, COUNTER_MAX), self._own.node_id)
        self._note(group.key, epoch.counter)
        self._outbox.emit(EpochTaken(group.key, epoch.counter))
        self._adopt(group, epoch)

    def _note(self, key: Id, counter: int) -> None:
        self.taken.pop(key, None)
        self.taken[key] = counter
        if len(self.taken) > TAKEN_MAX:
            del self.taken[next(iter(self.taken))]

    def note(self, group: Group, epoch: TreeEpoch) -> bool:
        """Note an epoch that a child has heard of; return whether the root should learn of it.

        True also for one noted before: while it is above the group's, the report to the root may have been lost.
        """
        known = max(group.epoch, group.heard)
        if epoch.is_jump_from(known):
            self._outbox.counters.refused += 1
            return False
        group.heard = max(group.heard, epoch)
        return epoch > group.epoch

    # Children.

    def accept(self, group: Group, epoch: TreeEpoch, frontier: Frontier, source: Peer, now: float) -> bool:
        """Adopt a parent's epoch if it is credible; return whether the group has that epoch now."""
        if epoch > group.epoch:
            if not self._is_credible(group, epoch):
                self._claim(_Claim(group, epoch, frontier, source), now)
                return False
            self._adopt(group, epoch)
        return epoch == group.epoch

    def _is_credible(self, group: Group, epoch: TreeEpoch) -> bool:
        hop = self._membership.next_hop(group.key)
        is_closest = hop is not None and not closer(group.key, hop.node_id, epoch.root)
        return is_closest and not epoch.is_jump_from(group.epoch)

    def _adopt(self, group: Group, epoch: TreeEpoch) -> None:
        self._claims.pop(group.key, None)
        group.epoch = epoch
        self._index.refresh(group)

    # Verification.

    def _claim(self, claim: _Claim, now: float) -> None:
        known = self._claims.get(claim.group.key)
        if known is None or claim.epoch > known.epoch:
            self._claims[claim.group.key] = claim
        elif claim.epoch == known.epoch:
            known.frontier, known.source = claim.frontier, claim.source
        if self._at is None:
            self._at = now + jittered(QUERY_S / 2, self._random)

    def next_timer(self) -> float | None:
        """Return when `handle_timer` is due."""
        return self._at

    def handle_timer(self, now: float) -> None:
        """Verify the oldest claims."""
        if self._at is None or now < self._at:
            return
        for key in list(self._claims)[:QUERIES_AT_ONCE_MAX]:
            self._verify(self._claims.pop(key), now)
        self._at = now + jittered(QUERY_S, self._random) if self._claims else None

    def _verify(self, claim: _Claim, now: float) -> None:
        """Decide about a claim, or query the root and requeue the claim."""
        group = claim.group
        hop = self._membership.next_hop(group.key)
        if hop is None or claim.epoch <= group.epoch:
            return
        nobody_answers = claim.attempts >= QUERY_ATTEMPTS_MAX and not claim.epoch.is_jump_from(group.epoch)
        if nobody_answers or self._is_credible(group, claim.epoch):
            self._believe(claim, claim.epoch, now)
        elif claim.attempts < QUERY_ATTEMPTS_MAX:
            claim.attempts += 1
            self._claims[group.key] = claim
            self._outbound.send(hop, RootQuery(group=group.key, origin=self._own, hops=1))

    def _believe(self, claim: _Claim, epoch: TreeEpoch, now: float) -> None:
        self._adopt(claim.group, epoch)
        self._believed(claim.group, claim.frontier, claim.source, now)

    def handle_query(self, message: RootQuery, own: Group | None) -> None:
        """Answer for the group if this node is closest to its key; otherwise forward the query."""
        hop = self._membership.next_hop(message.group)
        if not self._membership.is_active or message.hops >= HOPS_MAX or message.origin.node_id == self._own.node_id:
            self._outbox.counters.refused += 1
        elif hop is not None:
            self._outbound.send(hop, RootQuery(group=message.group, origin=message.origin, hops=message.hops + 1))
        else:
            epoch = own.epoch if own is not None and own.is_root else NEVER
            self._outbound.send(message.origin, RootAnswer(group=message.group, epoch=epoch))

    def handle_answer(self, sender: Peer, message: RootAnswer, now: float) -> None:
        """Believe the answer to a query if the sender is as close to the key as any known node."""
        claim = self._claims.get(message.group)
        hop = self._membership.next_hop(message.group)
        if claim is None or not claim.attempts or hop is None or closer(message.group, hop.node_id, sender.node_id):
            self._outbox.counters.refused += 1
        elif message.epoch >= claim.epoch:
            self._believe(claim, message.epoch, now)
        else:
            del self._claims[message.group]
            if message.epoch > claim.group.epoch:
                self._adopt(claim.group, message.epoch)

    def forget(self, key: Id) -> None:
        """Forget a tree."""
        self._claims.pop(key, None)

    def clear(self) -> None:
        """Forget all claims."""
        self._claims.clear()
        self._at = None

    def check(self, groups: Mapping[Id, Group]) -> None:
        """Assert every invariant."""
        assert len(self.taken) <= TAKEN_MAX
        assert all(groups.get(key) is claim.group for key, claim in self._claims.items())
        assert self._at is not None or not self._claims
