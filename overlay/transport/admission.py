"""Who may have a link with this agent: told to new links, looked at again in living ones, and passed on to peers."""

from collections.abc import Callable, Collection
from random import Random

from overlay.transport.identity.identity import Identity
from overlay.transport.identity.revocation import Revocations
from overlay.transport.identity.trust import Trust
from overlay.transport.link.link import Link
from overlay.transport.link.refusals import ViolationError
from overlay.transport.spreading import MARK, Spreading
from overlay.wire.peer import Peer

REMINDER_S = 10.0
"""How often a peer is told which lists of revoked certificates there are."""


class Admission:
    """A transport's. `send` is its own; `links` are those that are up, at any time."""

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
        """Whom this agent has links with."""
        self._spreading = Spreading(revocations, send, Random())
        self._links = links
        self._remind_at = 0.0

    def use(self, identity: Identity) -> None:
        """Be known by another certificate of the same agent, or trust other authorities; ValueError for another agent.

        New links use it at once. Living ones say goodbye at the next sweep, and are made anew when they are needed.
        """
        self.trust.use(identity)

    def revoke(self, revocations: bytes) -> bool:
        """Take a list of revoked certificates, act on it and pass it on; False when it is known. RevocationError."""
        is_new = self.trust.revocations.take(revocations)
        if is_new:
            self._revocations_changed()
        return is_new

    def start(self, peer: Peer) -> None:
        """Tell a peer to which there is a new link who is revoked."""
        self._spreading.tell([peer])

    def received(self, link: Link, peer: Peer, data: bytes, now: float) -> bool:
        """Take a message if it is about admission; False when it is not."""
        if not data.startswith(MARK):
            return False
        try:
            if self._spreading.received(peer, data, now):
                self._revocations_changed()
        except ViolationError as error:
            link.break_off(error)
        return True

    def sweep(self, now: float) -> None:
        """End links that may not go on as they are; now and then remind a peer of what is revoked."""
        self._end_links_of_strangers()
        for link in self._links:
            if link.greeted_as is not self.trust.identity and not link.is_leaving:
                link.leave()
        if now >= self._remind_at:
            self._remind_at = now + REMINDER_S
            self._spreading.remind(self._peers())

    def _revocations_changed(self) -> None:
        self._end_links_of_strangers()
        self._spreading.tell(self._peers())

    def _end_links_of_strangers(self) -> None:
        """Break the links to those who are no longer admitted."""
        for link in self._links:
            refusal = None if link.claims is None else self.trust.refusal(link.claims)
            if refusal is not None:
                link.break_off(ViolationError(*refusal))

    def _peers(self) -> list[Peer]:
        """Those to whom something can be sent."""
        staying = (link for link in self._links if not link.is_leaving and not link.is_broken)
        return list({link.peer.node_id: link.peer for link in staying if link.peer is not None}.values())
