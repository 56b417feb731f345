"""An agent's transport in a process of its own, for tests that kill and stop it: it answers every message.

Arguments: authority, certificate and key files, incarnation, listen address. Prints its address when it listens, ends
when its standard input does.
"""

from __future__ import annotations

import sys
from pathlib import Path

import trio

from overlay import Identity, Peer, Transport


class Echo:
    """Sends every message back, its first 100 bytes."""

    transport: Transport

    def received(self, peer: Peer, data: bytes) -> None:
        self.transport.send(peer, data[:100])

    def unreachable(self, peer: Peer, reason: str) -> None:
        pass

    def disconnected(self, peer: Peer) -> None:
        pass

    def restarted(self, peer: Peer) -> None:
        pass


async def main(ca: str, certificate: str, key: str, incarnation: str, listen: str) -> None:
    echo = Echo()
    identity = Identity.load(Path(ca), Path(certificate), Path(key))
    echo.transport = Transport(identity, listen, incarnation=int(incarnation), receiver=echo)
    async with trio.open_nursery() as nursery:
        peer: Peer = await nursery.start(echo.transport.serve)
        print(peer.address, flush=True)
        await trio.to_thread.run_sync(sys.stdin.buffer.read, abandon_on_cancel=True)
        nursery.cancel_scope.cancel()


if __name__ == "__main__":
    trio.run(main, *sys.argv[1:])
