"""Turns a connected socket into a link: TLS, certificates, hellos."""

import socket

from overlay.transport.identity.trust import Trust
from overlay.transport.link.context import LinkContext
from overlay.transport.link.framing import fleet_tag
from overlay.transport.link.hello import Hello
from overlay.transport.link.link import Link
from overlay.transport.link.refusals import LinkError, explained
from overlay.transport.link.sockets import connect
from overlay.wire.ids import Id
from overlay.wire.peer import Peer


class Handshake:
    """This agent's side of handshakes. The callers set time limits."""

    def __init__(self, trust: Trust, hello: Hello, context: LinkContext) -> None:
        self._trust = trust
        self._hello = hello
        self._context = context
        self._tag = fleet_tag(trust.identity.fleet)

    async def dial(self, address: str, expected: Id | None) -> tuple[Link, Peer]:
        """Connect to an address and shake hands with the agent there; LinkError if it does not have the expected id."""
        return await self._greet(await connect(address), expected, is_server=False)

    async def receive(self, connection: socket.socket) -> tuple[Link, Peer]:
        """Shake hands on an inbound connection; LinkError, with the socket closed, when it is not an agent of the
        fleet.
        """
        return await self._greet(connection, None, is_server=True)

    async def _greet(self, connection: socket.socket, expected: Id | None, *, is_server: bool) -> tuple[Link, Peer]:
        identity = self._trust.identity
        context = identity.server_context if is_server else identity.client_context
        try:
            wrapped = context.wrap_socket(connection, server_side=is_server, do_handshake_on_connect=False)
        except (OSError, ValueError) as error:
            connection.close()
            raise explained(error) from error
        link = Link(wrapped, self._tag, self._context, is_inbound=is_server)
        try:
            return link, await link.greet(self._hello, self._trust, expected)
        except BaseException as error:
            try:
                if is_server and isinstance(error, LinkError):
                    await link.wait_for_alert()
            finally:
                link.close()
            raise
