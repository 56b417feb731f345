"""One peer as a sender sees it: the links to it, what waits for one, when it may be dialled again."""

from overlay.transport.link.link import Link
from overlay.transport.link.send_queues import SendQueues
from overlay.wire.peer import Peer

BACK_OFF_FIRST_S = 0.1
BACK_OFF_MAX_S = 3.0
FORGET_AFTER_S = 30.0


class Destination:
    """What the transport knows of one peer it sends to or hears from."""

    __slots__ = ("_is_ours_kept", "dial_after", "failures", "is_dialling", "links", "peer", "queues", "sending")

    def __init__(self, peer: Peer, queues: SendQueues, *, own_id: int) -> None:
        self.peer = peer
        """With the address last heard of."""
        self.queues = queues
        self._is_ours_kept = own_id < peer.node_id
        """Of two links the one stays that the lower id dialled, so both ends keep the same."""
        self.links: list[Link] = []
        """Those that are up, the oldest first."""
        self.sending: Link | None = None
        """The one that sends what waits: one sends until it ends, so order is kept."""
        self.is_dialling = False
        self.failures = 0
        """Dials that failed since one succeeded."""
        self.dial_after = 0.0

    def choose_link(self) -> None:
        """Let a link that stays send, when none does: of those that are kept the oldest."""
        if self.sending is None:
            self.sending = min(self._staying(), key=lambda link: link.is_inbound is self._is_ours_kept, default=None)
            if self.sending is not None:
                self.sending.attach(self.queues)

    def keep_one(self) -> None:
        """Leave the links dialled here when there is one dialled by a peer of a lower id: it does the same for us."""
        staying = self._staying()
        if not self._is_ours_kept and any(link.is_inbound for link in staying):
            for link in staying:
                if not link.is_inbound:
                    link.leave()

    def has_other_own(self, link: Link) -> bool:
        """Whether there is another link that was dialled here."""
        return any(other is not link and not other.is_inbound for other in self._staying())

    def _staying(self) -> list[Link]:
        return [link for link in self.links if not link.is_leaving and not link.is_broken]

    def remove(self, link: Link) -> None:
        """Forget a link."""
        if link in self.links:
            self.links.remove(link)
        if self.sending is link:
            self.sending = None

    def dial_failed(self, now: float) -> None:
        """Put the next dial off: twice as long after each failure, up to a few seconds."""
        self.dial_after = now + min(BACK_OFF_MAX_S, BACK_OFF_FIRST_S * 2.0 ** min(self.failures, 10))
        self.failures += 1

    def is_idle(self, now: float) -> bool:
        """Whether nothing would be lost by forgetting it."""
        return not (self.links or self.queues or self.is_dialling or now < self.dial_after + FORGET_AFTER_S)
