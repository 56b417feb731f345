"""Accepts inbound connections; each becomes a link only after its handshake."""

import errno
import socket
from collections.abc import Callable

import trio

from overlay.transport.limits import TransportLimits
from overlay.transport.link.handshake import Handshake
from overlay.transport.link.handshake_slots import HandshakeSlots, Slot
from overlay.transport.link.link import Link
from overlay.transport.link.refusals import LinkError, Refusals, explained
from overlay.transport.link.sockets import prepared
from overlay.wire.addresses import format_address
from overlay.wire.peer import Peer

ACCEPT_PAUSE_S = 0.1


class Reception:
    """Accepts connections, shakes hands, and hands over the links: `admit` takes one or returns the reason why not.

    `make_room` returns whether there may be one more connection.
    """

    def __init__(
        self,
        limits: TransportLimits,
        refused: Refusals,
        make_room: Callable[[], bool],
        admit: Callable[[Link, Peer], LinkError | None],
    ) -> None:
        self._hello_s = limits.handshake_s
        self._slots = HandshakeSlots(limits.strangers, limits.handshake_s, limits.stranger_safe_s)
        self._refused = refused
        self._make_room = make_room
        self._admit = admit
        self._scope = trio.CancelScope()

    def __len__(self) -> int:
        """Number of connections that have not said hello yet."""
        return len(self._slots)

    def stop(self) -> None:
        """Accept no more connections: dialling this agent is refused."""
        self._scope.cancel()

    async def accept_all(self, listener: socket.socket, handshake: Handshake) -> None:
        """Accept connections as fast as slots become free, until stopped; then close the listener."""
        with listener, self._scope:
            async with trio.open_nursery() as nursery:
                while True:
                    await self._slots.wait_for_place()
                    try:
                        connection, remote = listener.accept()
                    except BlockingIOError:
                        await trio.lowlevel.wait_readable(listener)
                    except OSError as error:
                        self._refuse(explained(error), "a connection")
                        await trio.sleep(ACCEPT_PAUSE_S if error.errno in (errno.EMFILE, errno.ENFILE) else 0)
                    else:
                        name = format_address(*remote[:2])
                        if self._make_room():
                            nursery.start_soon(
                                self._receive, prepared(connection), name, handshake, self._slots.take_place()
                            )
                        else:
                            connection.close()
                            self._refuse(LinkError("too many connections"), name)

    async def _receive(self, connection: socket.socket, name: str, handshake: Handshake, slot: Slot) -> None:
        """Shake hands with an inbound connection within its time limit."""
        failure: LinkError | None = None
        try:
            with slot:
                failure = LinkError("too slow", f"no hello within {self._hello_s:g} s")
                link, peer = await handshake.receive(connection)
                failure = self._admit(link, peer)
        except LinkError as error:
            failure = error
        if slot.was_evicted:
            failure = LinkError("too slow while others waited")
        if failure is not None:
            self._refuse(failure, name)

    def _refuse(self, error: LinkError, name: str) -> None:
        self._refused.count(error.reason)
        self._refused.log(error.reason, f"refused {name}: {error}", trio.current_time())
