"""The shell that carries a node's messages over TLS: it listens, dials, maintains links and reports their fate.

Peers are identified by id: the id in a peer's certificate, the dialled one and the claimed one must be equal, or there
is no link. The receiver is always called from the transport's own tasks, never from inside `send`.
"""

import socket
import time
from collections.abc import Callable
from functools import partial

import trio

from overlay.transport.admission import Admission
from overlay.transport.destination import Destination
from overlay.transport.identity.identity import Identity
from overlay.transport.identity.revocation import Revocations
from overlay.transport.limits import TransportLimits
from overlay.transport.link.assembly import AssemblyBudget
from overlay.transport.link.context import LinkContext, LinkCounters
from overlay.transport.link.framing import PAYLOAD_BYTES_MAX
from overlay.transport.link.handshake import Handshake
from overlay.transport.link.hello import Hello
from overlay.transport.link.link import Link
from overlay.transport.link.refusals import ConnectError, LinkError, Refusals, UnknownHostError, ViolationError
from overlay.transport.link.send_queues import QueueBudget, SendQueues
from overlay.transport.link.sockets import HOST_NOT_FOUND, listen
from overlay.transport.processes import TWINS_LOGGED, Processes
from overlay.transport.receiver import Receiver
from overlay.transport.reception import Reception
from overlay.transport.revocation_gossip import MARK
from overlay.transport.statistics import LinkInfo, TransportStatistics
from overlay.transport.upkeep import Upkeep
from overlay.wire.ids import Id, format_id
from overlay.wire.peer import Peer

LINKS_PER_PEER_MAX = 4
CLOSE_POLL_S = 0.01


class Transport:
    """An agent's end of all its links.

    `listen` is the address to bind, `advertise` the one that others dial (by default the bound one). Messages are
    opaque bytes, 1 to `PAYLOAD_BYTES_MAX` long, the first not 0xC1; `compress` sends long ones with zstd where they
    shrink. Call `bind`, then `serve` in a nursery; `send` from anywhere in the trio thread. ListenError from `bind` or
    `serve`, ConnectError from `identify`; nothing else a peer or the network does raises here.
    """

    def __init__(
        self,
        identity: Identity,
        listen: str,
        *,
        advertise: str | None = None,
        incarnation: int,
        receiver: Receiver,
        limits: TransportLimits | None = None,
        compress: bool = False,
        revocations: Revocations | None = None,
        wall_s: Callable[[], float] = time.time,
    ) -> None:
        self._node_id = identity.node_id
        self._listen = listen
        self._advertise = advertise
        self._incarnation = incarnation
        self._receiver = receiver
        self._limits = limits or TransportLimits()
        self._refused = Refusals()
        self._unreachable = Refusals()
        self._queue_budget = QueueBudget(self._limits.all_queues_bytes)
        self._budget = AssemblyBudget(self._limits.all_assemblies_bytes)
        self._compress = compress
        self._upkeep = Upkeep(self._limits, self._budget)
        self._reception = Reception(self._limits, self._refused, self._make_room, self._admit)
        self._destinations: dict[int, Destination] = {}
        self._links: dict[Link, Destination] = {}
        self.admission = Admission(identity, revocations, wall_s, self._send, self._links.keys())
        self._processes = Processes()
        self._counters = LinkCounters()
        self._dropped = self._dialled = self._broken = self._opening = 0
        self._listener: socket.socket | None = None
        self._peer: Peer | None = None
        self._nursery: trio.Nursery | None = None
        self._is_closing = False
        self._ended = trio.Event()

    @property
    def peer(self) -> Peer:
        """This agent as other agents know it. RuntimeError before `bind`."""
        if self._peer is None:
            raise RuntimeError("the transport is not bound")
        return self._peer

    def bind(self) -> Peer:
        """Bind the listening address, once; return this agent as others will know it. ListenError on failure."""
        if self._peer is None:
            self._listener, address = listen(self._listen, self._advertise)
            self._peer = Peer(self._node_id, address)
        return self._peer

    async def serve(self, *, task_status: trio.TaskStatus[Peer] = trio.TASK_STATUS_IGNORED) -> None:
        """Listen and maintain links until cancelled or closed; ListenError at once when the address is unavailable."""
        peer = self.bind()
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                assert self._listener is not None
                nursery.start_soon(self._reception.accept_all, self._listener, self._handshake())
                nursery.start_soon(self._sweep)
                for destination in list(self._destinations.values()):
                    self._resume(destination)
                task_status.started(peer)
        finally:
            self._end()

    def send(self, peer: Peer, data: bytes, *, in_order: bool = False) -> None:
        """Send a message, at once if a link is up, otherwise when one is: a peer without a link is dialled.

        Messages sent `in_order` arrive in that order; otherwise short ones may overtake long ones. Never blocks or
        fails: a message that does not fit the peer's queue is dropped and counted. ValueError for an overlong or empty
        message.
        """
        if not 0 < len(data) <= PAYLOAD_BYTES_MAX:
            raise ValueError(f"a message is 1 to {PAYLOAD_BYTES_MAX} bytes, not {len(data)}")
        if data.startswith(MARK):
            raise ValueError("a message does not begin with 0xC1: what does is the transport's own")
        self._send(peer, data, in_order=in_order)

    def _send(self, peer: Peer, data: bytes, *, in_order: bool = False) -> None:
        if self._is_closing or peer.node_id == self._node_id:
            self._dropped += 1
            return
        destination = self._destination(peer)
        if not destination.queues.append(data, in_order=in_order):
            self._dropped += 1
        elif destination.sending is not None:
            destination.sending.pump()
        else:
            destination.peer = peer
            self._resume(destination)

    async def identify(self, address: str) -> Peer:
        """Dial an address and return the agent there, which may be this one; ConnectError otherwise.

        The link is kept, unless there is another to that agent already.
        """
        closed = f"{address}: the transport is closed"
        if self._is_closing or self._nursery is None:
            raise ConnectError(closed)
        try:
            link, peer = await self._open(address, None)
        except LinkError as error:
            kind = UnknownHostError if error.reason == HOST_NOT_FOUND else ConnectError
            raise kind(f"{address}: {error}") from error
        if self._is_closing:
            link.close()
            raise ConnectError(closed)
        if peer.node_id == self._node_id:
            link.close()
            if self._is_ourselves(link, peer):
                return self.peer
            raise ConnectError(f"{address}: another agent there has our id: two of them use the same certificate")
        self._start_link(link, peer)
        if self._destination(peer).has_other_own(link):
            link.leave()
        return peer

    async def close(self, timeout_s: float) -> None:
        """Send everything queued, say goodbye to all peers and end `serve`; after the timeout the rest is cut off."""
        self._is_closing = True
        self._reception.stop()
        with trio.move_on_after(timeout_s):
            while self._links or any(known.is_dialling and not known.failures for known in self._destinations.values()):
                for link, destination in list(self._links.items()):
                    if not link.is_leaving and not (destination.sending is link and destination.queues):
                        link.leave()
                await trio.sleep(CLOSE_POLL_S)
        if self._nursery is None:
            self._end()
        else:
            self._nursery.cancel_scope.cancel()
            with trio.CancelScope(shield=True):  # ends at once: everything inside is being cancelled
                await self._ended.wait()

    def statistics(self) -> TransportStatistics:
        """Return the counters."""
        return TransportStatistics(
            connections=len(self._links),
            strangers=len(self._reception),
            waiting_bytes=self._queue_budget.used,
            assembling_bytes=self._budget.used,
            frames_in=self._counters.frames_in,
            frames_out=self._counters.frames_out,
            bytes_in=self._counters.bytes_in,
            bytes_out=self._counters.bytes_out,
            dropped=self._dropped,
            dialled=self._dialled,
            broken=self._broken,
            refused=self._refused.snapshot(),
            twins=dict(self._processes.twins),
            unreachable=self._unreachable.snapshot(),
        )

    def connections(self) -> tuple[LinkInfo, ...]:
        """Return the links that are up."""
        return tuple(LinkInfo(link.peer, link.name, link.incarnation) for link in self._links if link.peer is not None)

    # Links

    def _destination(self, peer: Peer) -> Destination:
        destination = self._destinations.get(peer.node_id)
        if destination is None:
            queues = SendQueues(self._queue_budget, self._limits.queue_messages, self._limits.queue_bytes)
            destination = Destination(peer, queues, own_id=self._node_id)
            self._destinations[peer.node_id] = destination
        return destination

    def _start_link(self, link: Link, peer: Peer) -> None:
        """Start using a link that is up."""
        assert self._nursery is not None
        now = trio.current_time()
        destination = self._destination(peer)
        destination.peer = peer
        destination.failures, destination.dial_after = 0, 0.0
        twins = self._processes.twins.total()
        has_restarted = self._processes.meet(peer, link.name, link.incarnation)
        if self._processes.twins.total() > twins:
            pairs = ", ".join(self._processes.twins)
            self._refused.log(TWINS_LOGGED, f"{TWINS_LOGGED}: {pairs}: stop one, and give it its own", now)
        if has_restarted:
            self._drop_links(destination)
        destination.links.append(link)
        self._links[link] = destination
        self._upkeep.add(link, now)
        link.on_detached = partial(self._detached, link, destination)
        link.on_asked = partial(self._is_needed, link)
        self._nursery.start_soon(self._run_link, link, peer, destination)
        if len(destination.links) > LINKS_PER_PEER_MAX:
            destination.links[0].break_off(ViolationError("too many links to one peer"))
        destination.keep_one()
        destination.choose_link()
        if has_restarted:
            self._receiver.restarted(peer)
        self.admission.start(peer)

    def _received(self, link: Link, peer: Peer, data: bytes) -> None:
        if not self.admission.received(link, peer, data, trio.current_time()):
            self._receiver.received(peer, data)

    def _drop_links(self, destination: Destination) -> None:
        """Break the links to an earlier process and drop the messages queued for it."""
        if destination.links:
            self._dropped += destination.queues.clear()
        for link in list(destination.links):
            destination.remove(link)
            link.break_off(LinkError("restarted"))

    async def _run_link(self, link: Link, peer: Peer, destination: Destination) -> None:
        try:
            await link.read(partial(self._received, link, peer))
            link.leave()
            with trio.move_on_after(self._limits.goodbye_s):
                await link.departed()
            reason = None
        except LinkError as error:
            reason = error
        finally:
            was_in_use = link in destination.links
            del self._links[link]
            self._upkeep.remove(link)
            destination.remove(link)
            link.close()
        if reason is not None and was_in_use:
            self._link_broke(peer, destination, reason)
        self._resume(destination)

    def _link_broke(self, peer: Peer, destination: Destination, reason: LinkError) -> None:
        self._broken += 1
        if isinstance(reason, ViolationError):
            self._refused.count(reason.reason)
            self._refused.log(reason.reason, f"closed the link to {_shown(peer)}: {reason}", trio.current_time())
        if not destination.links:
            self._dropped += destination.queues.clear()
            if not self._is_closing:
                self._receiver.disconnected(peer)

    def _detached(self, link: Link, destination: Destination) -> None:
        """Send what is queued by another link: this one has said goodbye."""
        destination.remove(link)
        self._resume(destination)

    def _resume(self, destination: Destination) -> None:
        """Send what is queued, by another link or by dialling."""
        destination.choose_link()
        if destination.sending is None and destination.queues and not destination.is_dialling and self._nursery:
            destination.is_dialling = True
            self._nursery.start_soon(self._dial, destination)

    # Dialling

    async def _dial(self, destination: Destination) -> None:
        await trio.sleep_until(destination.dial_after)
        while destination.sending is None:
            peer = destination.peer
            try:
                self._start_link(*await self._open(peer.address, peer.node_id))
            except LinkError as error:
                if destination.peer.address == peer.address:  # else another address has become known meanwhile
                    self._dial_failed(destination, peer, error)
                    return
        destination.is_dialling = False

    def _dial_failed(self, destination: Destination, peer: Peer, error: LinkError) -> None:
        now = trio.current_time()
        self._unreachable.log(error.reason, f"cannot reach {_shown(peer)}: {error}", now)
        destination.dial_failed(now)
        destination.is_dialling = False
        if destination.sending is None:
            self._dropped += destination.queues.clear()
            self._receiver.unreachable(peer, str(error))

    async def _open(self, address: str, expected: Id | None) -> tuple[Link, Peer]:
        """Dial and shake hands; LinkError when that fails or takes too long."""
        self._dialled += 1
        self._opening += 1
        self._make_room()
        failure = LinkError("timed out", f"after {self._limits.handshake_s:g} s")
        try:
            with trio.move_on_after(self._limits.handshake_s):
                return await self._handshake().dial(address, expected)
        except LinkError as error:
            failure = error
        finally:
            self._opening -= 1
        self._unreachable.count(failure.reason)
        raise failure

    def _handshake(self) -> Handshake:
        assert self._nursery is not None
        hello = Hello(self.peer.node_id, self.peer.address, self._incarnation, self.admission.trust.identity.name)
        context = LinkContext(self._counters, self._budget, self._nursery.start_soon, self._compress)
        return Handshake(self.admission.trust, hello, context)

    # Accepting

    def _admit(self, link: Link, peer: Peer) -> LinkError | None:
        """Start using an inbound link; otherwise return the reason why not."""
        if peer.node_id != self._node_id:
            self._start_link(link, peer)
            return None
        link.close()
        if self._is_ourselves(link, peer):
            return None
        return LinkError("our own id", "two agents use the same certificate")

    def _is_ourselves(self, link: Link, peer: Peer) -> bool:
        return link.incarnation == self._incarnation and peer.address == self.peer.address

    # Housekeeping

    def _make_room(self) -> bool:
        """Make room for one more connection, if need be by closing the least used link; False when all are busy."""
        if len(self._links) + len(self._reception) + self._opening < self._limits.connections:
            return True
        least_used = self._upkeep.least_used(trio.current_time())
        if least_used is None:
            return False
        least_used.leave()
        return True

    def _is_needed(self, link: Link) -> bool:
        return self._upkeep.is_needed(link, trio.current_time())

    async def _sweep(self) -> None:
        """Maintain links, and forget idle peers."""
        while True:
            await trio.sleep(self._limits.sweep_s)
            now = trio.current_time()
            self._upkeep.maintain_all(now)
            self.admission.sweep(now)
            for node_id, destination in list(self._destinations.items()):
                if destination.is_idle(now):
                    del self._destinations[node_id]

    def _end(self) -> None:
        """Close everything without goodbyes."""
        self._ended.set()
        self._is_closing = True
        self._nursery = None
        if self._listener is not None:
            self._listener.close()
        for link in list(self._links):
            link.close()
        for destination in self._destinations.values():
            self._dropped += destination.queues.clear()


def _shown(peer: Peer) -> str:
    return f"agent {format_id(peer.node_id)} at {peer.address}"
