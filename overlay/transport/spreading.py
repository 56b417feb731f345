"""How lists of revoked certificates spread: an epidemic of numbers, and the lists only for who lacks them.

An agent with a list tells its peers its numbers: all of them when it took a list, each when a link to it comes up, and
one at a time by and by, for what went amiss. Who hears of a higher number answers with its own, and is sent the list.
Who has no list, or an empty one, says nothing: in a fleet without revocations there is none of this.

    has number 7                    has number 6
        | -- Numbers(7) ----------------> |
        | <---------------- Numbers(6) -- |     at most 3 peers are asked at a time
        | -- Revoked(list 7) -----------> |     checked, kept, acted on, told to all others

These messages are told from those of the overlay by their first byte, which no msgpack has.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import Annotated

import msgspec

from overlay.core.random_source import RandomSource
from overlay.transport.identity.identity import AUTHORITIES_MAX
from overlay.transport.identity.revocation import (
    LIST_BYTES_MAX,
    NUMBER_MAX,
    OutdatedError,
    RevocationError,
    Revocations,
)
from overlay.transport.link.refusals import ViolationError
from overlay.wire.codec import Codec, WireError
from overlay.wire.peer import Peer

MARK = b"\xc1"
"""The one byte msgpack never uses."""
MESSAGE_BYTES_MAX = LIST_BYTES_MAX + 1024
AGAIN_S = 10.0
"""The same list goes to the same peer once in this time, and a list is asked for again after it."""
ASKED_MAX = 3
"""Peers asked for the same list within that time: one may be slow, or not be willing."""
TAKEN_MAX = 32
"""Lists looked at from one peer within that time: no agent has so many, and checking one takes a while."""
REMEMBERED_MAX = 4096

_Fingerprint = Annotated[bytes, msgspec.Meta(min_length=32, max_length=32)]
_Number = Annotated[int, msgspec.Meta(ge=0, le=NUMBER_MAX)]


class Numbers(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """The lists the sender has, and for which authorities it has none (0)."""

    numbers: Annotated[list[tuple[_Fingerprint, _Number]], msgspec.Meta(max_length=AUTHORITIES_MAX)]


class Revoked(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """A list, as the authority signed it."""

    der: Annotated[bytes, msgspec.Meta(max_length=LIST_BYTES_MAX)]


CODEC: Codec[Numbers | Revoked] = Codec(Numbers | Revoked)


class Spreading:
    """One agent's part in it; no input or output. `send` is a transport's, `random` chooses whom to remind."""

    def __init__(self, revocations: Revocations, send: Callable[[Peer, bytes], None], random: RandomSource) -> None:
        self._revocations = revocations
        self._send = send
        self._random = random
        self._lately = _Lately()

    def tell(self, peers: Sequence[Peer]) -> None:
        """Tell peers which lists there are here, if anybody is on one."""
        if any(found.serials for found in self._revocations.lists):
            for peer in peers:
                self._say_numbers(peer)

    def remind(self, peers: Sequence[Peer]) -> None:
        """Tell one of these peers, in case that something went amiss."""
        if peers:
            self.tell([peers[int(self._random.random() * len(peers))]])

    def received(self, peer: Peer, data: bytes, now: float) -> bool:
        """Take a message; True when it brought a newer list. ViolationError when it is none an agent sends."""
        try:
            message = CODEC.decode(data[len(MARK) :], MESSAGE_BYTES_MAX)
        except WireError as error:
            raise ViolationError("malformed message", str(error)) from error
        if isinstance(message, Numbers):
            self._compare(peer, dict(message.numbers), now)
            return False
        if not self._lately.counted(("taken", peer.node_id), now, TAKEN_MAX):
            raise ViolationError("too many lists of revoked certificates")
        return self._take(message.der)

    def _compare(self, peer: Peer, theirs: dict[bytes, int], now: float) -> None:
        for found in self._revocations.lists:
            if found.number > theirs.get(found.authority, found.number) and self._lately.counted(
                ("sent", peer.node_id, found.authority, found.number), now
            ):
                self._send(peer, MARK + CODEC.encode(Revoked(found.der)))
        known = self._revocations.numbers
        wanted = [(name, number) for name, number in theirs.items() if number > known.get(name, NUMBER_MAX)]
        if any(self._lately.counted(("wanted", *one), now, ASKED_MAX) for one in wanted):
            self._say_numbers(peer)

    def _say_numbers(self, peer: Peer) -> None:
        self._send(peer, MARK + CODEC.encode(Numbers(list(self._revocations.numbers.items()))))

    def _take(self, der: bytes) -> bool:
        try:
            return self._revocations.take(der)
        except OutdatedError:
            return False  # another peer was faster
        except RevocationError as error:
            raise ViolationError(error.reason, str(error)) from error


class _Lately:
    """How often things happened within the last seconds; of many things the latest are remembered."""

    def __init__(self) -> None:
        self._things: OrderedDict[Hashable, tuple[float, int]] = OrderedDict()

    def counted(self, thing: Hashable, now: float, times_max: int = 1) -> bool:
        """Count a thing; False when it happened that many times already."""
        since, times = self._things.get(thing, (now, 0))
        if now - since >= AGAIN_S:
            since, times = now, 0
        if times >= times_max:
            return False
        self._things[thing] = since, times + 1
        self._things.move_to_end(thing)
        if len(self._things) > REMEMBERED_MAX:
            self._things.popitem(last=False)
        return True
