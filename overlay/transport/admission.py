"""Decides which peers may have a link with this agent: checks new and existing links, and passes revocations on."""

from collections.abc import Callable, Collection
from random import Random

from overlay.transport.identity.identity import Identity
from overlay.transport.identity.revocation import Revocations
from overlay.transport.identity.trust import Trust
from overlay.transport.link.link import Link
from overlay.transport.link.refusals import ViolationError
from overlay.transport.revocation_gossip import MARK, RevocationGossip
from overlay.wire.peer import Peer

REMINDER_S = 10.0
"""Period after which a random peer is reminded of the known revocation lists."""


class Admission:
    """A transport's admission of peers. `send` sends a message to a peer; `links` is a live view of the links that are
    up.
    """

    def __init__(
        self,
        identity: Identity,
        revocations: Revocations | None,
        wall_s: Callable[[], float],
        send: Callable[[Peer, bytes], None],
        links: Collection[Link],
    ) -> None:
        revocations = revocations or Revocations(identity.authorities)
        self.trust = Trust(identity, revocations, wall_s)
        """The rules for peers' certificates."""
        self._gossip = RevocationGossip(revocations, send, Random())
        self._links = links
        self._remind_at = 0.0

    def use(self, identity: Identity) -> None:
        """Use another certificate of the same agent, or trust other authorities; ValueError for another agent.

        New links use it at once. Existing ones say goodbye at the next sweep, and are made again when needed.
        """
        self.trust.use(identity)

    def revoke(self, revocations: bytes) -> bool:
        """Take a revocation list, act on it and pass it on; False when it is already known. RevocationError."""
        is_new = self.trust.revocations.take(revocations)
        if is_new:
            self._revocations_changed()
        return is_new

    def start(self, peer: Peer) -> None:
        """Announce the known revocation lists to a peer with a new link."""
        self._gossip.announce([peer])

    def received(self, link: Link, peer: Peer, data: bytes, now: float) -> bool:
        """Handle a message if it is about admission; otherwise return False."""
        if not data.startswith(MARK):
            return False
        try:
            if self._gossip.received(peer, data, now):
                self._revocations_changed()
        except ViolationError as error:
            link.break_off(error)
        return True

    def sweep(self, now: float) -> None:
        """End links that are no longer admitted; periodically remind a peer of the revocation lists."""
        self._end_links_of_strangers()
        for link in self._links:
            if link.greeted_as is not self.trust.identity and not link.is_leaving:
                link.leave()
        if now >= self._remind_at:
            self._remind_at = now + REMINDER_S
            self._gossip.remind(self._peers())

    def _revocations_changed(self) -> None:
        self._end_links_of_strangers()
        self._gossip.announce(self._peers())

    def _end_links_of_strangers(self) -> None:
        """Break links to peers that are no longer admitted."""
        for link in self._links:
            refusal = None if link.claims is None else self.trust.refusal(link.claims)
            if refusal is not None:
                link.break_off(ViolationError(*refusal))

    def _peers(self) -> list[Peer]:
        """Peers with a link that can be sent to."""
        staying = (link for link in self._links if not link.is_leaving and not link.is_broken)
        return list({link.peer.node_id: link.peer for link in staying if link.peer is not None}.values())
