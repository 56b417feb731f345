"""Spreads lists of revoked certificates by gossip: numbers to all peers, lists only to peers that lack them.

An agent with a list sends its numbers to its peers: to all of them when it has taken a list, to one when a link to it
comes up, and to a random one periodically, in case a message was lost. A peer that sees a higher number answers with
its own, and is sent the list. An agent without a list, or with an empty one, sends nothing: a fleet without
revocations has no such traffic.

    has number 7                    has number 6
        | -- Numbers(7) ----------------> |
        | <---------------- Numbers(6) -- |     at most 3 peers are asked at a time
        | -- Revoked(list 7) -----------> |     checked, kept, acted on, announced to all others

Their first byte, which msgpack never uses, distinguishes these messages from those of the overlay.
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
"""The one byte that msgpack never uses."""
MESSAGE_BYTES_MAX = LIST_BYTES_MAX + 1024
AGAIN_S = 10.0
"""Period in which a list goes to the same peer at most once, and after which a list is requested again."""
ASKED_MAX = 3
"""Most peers asked for the same list within that period: one may be slow or unwilling."""
TAKEN_MAX = 32
"""Most lists checked from one peer within that period: no agent has more, and checking one takes time."""
REMEMBERED_MAX = 4096

_Fingerprint = Annotated[bytes, msgspec.Meta(min_length=32, max_length=32)]
_Number = Annotated[int, msgspec.Meta(ge=0, le=NUMBER_MAX)]


class Numbers(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """Numbers of the sender's lists; 0 for authorities of which it has none."""

    numbers: Annotated[list[tuple[_Fingerprint, _Number]], msgspec.Meta(max_length=AUTHORITIES_MAX)]


class Revoked(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """A list as signed by the authority."""

    der: Annotated[bytes, msgspec.Meta(max_length=LIST_BYTES_MAX)]


CODEC: Codec[Numbers | Revoked] = Codec(Numbers | Revoked)


class RevocationGossip:
    """One agent's part in the gossip; no input or output. `send` is a transport's, `random` chooses peers to remind."""

    def __init__(self, revocations: Revocations, send: Callable[[Peer, bytes], None], random: RandomSource) -> None:
        self._revocations = revocations
        self._send = send
        self._random = random
        self._recent = _RecentCounts()

    def announce(self, peers: Sequence[Peer]) -> None:
        """Send peers the numbers of this agent's lists, if any certificate is revoked."""
        if any(found.serials for found in self._revocations.lists):
            for peer in peers:
                self._say_numbers(peer)

    def remind(self, peers: Sequence[Peer]) -> None:
        """Send the numbers to one of these peers, in case a message was lost."""
        if peers:
            self.announce([peers[int(self._random.random() * len(peers))]])

    def received(self, peer: Peer, data: bytes, now: float) -> bool:
        """Handle a message; True when it brought a newer list. ViolationError when no agent would send it."""
        try:
            message = CODEC.decode(data[len(MARK) :], MESSAGE_BYTES_MAX)
        except WireError as error:
            raise ViolationError("malformed message", str(error)) from error
        if isinstance(message, Numbers):
            self._compare(peer, dict(message.numbers), now)
            return False
        if not self._recent.counted(("taken", peer.node_id), now, TAKEN_MAX):
            raise ViolationError("too many lists of revoked certificates")
        return self._take(message.der)

    def _compare(self, peer: Peer, theirs: dict[bytes, int], now: float) -> None:
        for found in self._revocations.lists:
            if found.number > theirs.get(found.authority, found.number) and self._recent.counted(
                ("sent", peer.node_id, found.authority, found.number), now
            ):
                self._send(peer, MARK + CODEC.encode(Revoked(found.der)))
        known = self._revocations.numbers
        wanted = [(name, number) for name, number in theirs.items() if number > known.get(name, NUMBER_MAX)]
        if any(self._recent.counted(("wanted", *one), now, ASKED_MAX) for one in wanted):
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


class _RecentCounts:
    """Counts occurrences within the last seconds; of many keys the latest are remembered."""

    def __init__(self) -> None:
        self._things: OrderedDict[Hashable, tuple[float, int]] = OrderedDict()

    def counted(self, thing: Hashable, now: float, times_max: int = 1) -> bool:
        """Count an occurrence; False when there were `times_max` already."""
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
