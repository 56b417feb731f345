"""One peer's links, its queued messages, and the back-off before it is dialled again."""

from overlay.transport.link.link import Link
from overlay.transport.link.send_queues import SendQueues
from overlay.wire.peer import Peer

BACK_OFF_FIRST_S = 0.1
BACK_OFF_MAX_S = 3.0
FORGET_AFTER_S = 30.0


class Destination:
    """State of the transport about one peer."""

    __slots__ = ("_is_ours_kept", "dial_after", "failures", "is_dialling", "links", "peer", "queues", "sending")

    def __init__(self, peer: Peer, queues: SendQueues, *, own_id: int) -> None:
        self.peer = peer
        """The peer with its latest known address."""
        self.queues = queues
        self._is_ours_kept = own_id < peer.node_id
        """Whether the link dialled here wins over one dialled by the peer: the lower id's does, so both ends keep the
        same.
        """
        self.links: list[Link] = []
        """Links that are up, oldest first."""
        self.sending: Link | None = None
        """The link that drains the queues. Only one does, until it ends, so that order is kept."""
        self.is_dialling = False
        self.failures = 0
        """Failed dials since the last success."""
        self.dial_after = 0.0

    def choose_link(self) -> None:
        """Choose a sending link if there is none: the oldest of the preferred kind."""
        if self.sending is None:
            self.sending = min(self._staying(), key=lambda link: link.is_inbound is self._is_ours_kept, default=None)
            if self.sending is not None:
                self.sending.attach(self.queues)

    def keep_one(self) -> None:
        """Leave the links dialled here if a peer of a lower id has dialled one too; the peer keeps the same one."""
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
        """Postpone the next dial: twice as long after each failure, up to a few seconds."""
        self.dial_after = now + min(BACK_OFF_MAX_S, BACK_OFF_FIRST_S * 2.0 ** min(self.failures, 10))
        self.failures += 1

    def is_idle(self, now: float) -> bool:
        """Whether nothing is lost by forgetting the peer."""
        return not (self.links or self.queues or self.is_dialling or now < self.dial_after + FORGET_AFTER_S)
