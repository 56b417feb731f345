"""Tells apart the processes that answer for one id: an agent that was restarted, and two with one certificate.

A restart gives an agent another incarnation, once. Two agents with one certificate alternate, or have the same
incarnation at two addresses.
"""

from collections import Counter
from typing import NamedTuple

from overlay.wire.peer import Peer

PEERS_MAX = 16_384
"""Most peers whose processes are remembered; the least recently met are forgotten."""
TWINS_MAX = 64
"""Most pairs of twins that are counted by name; further ones are counted together."""
TWINS_LOGGED = "two agents with one certificate"


class _Process(NamedTuple):
    incarnation: int
    address: str


class Processes:
    """The last two processes met of each peer.

    >>> processes = Processes()
    >>> [processes.meet(Peer(7, address), "shop-7", count) for address, count in (("a:1", 5), ("b:1", 9), ("a:1", 5))]
    [False, True, True]
    >>> processes.twins
    Counter({'shop-7 at a:1 and b:1': 1})
    """

    def __init__(self) -> None:
        self.twins: Counter[str] = Counter()
        """Number of times that two agents were seen to share a certificate, by what they are."""
        self._met: dict[int, tuple[_Process, _Process | None]] = {}

    def meet(self, peer: Peer, name: str, incarnation: int) -> bool:
        """Note a link to a peer; return whether it leads to another process than the one before."""
        process = _Process(incarnation, peer.address)
        last, earlier = self._met.pop(peer.node_id, (None, None))
        has_restarted = last is not None and last.incarnation != incarnation
        is_twin = last is not None and last != process and (not has_restarted or earlier == process)
        self._met[peer.node_id] = (process, earlier if last in (None, process) else last)
        if len(self._met) > PEERS_MAX:
            del self._met[next(iter(self._met))]
        if last is not None and is_twin:
            one, other = sorted((process.address, last.address))
            pair = f"{name} at {one} and {other}"
            self.twins[pair if pair in self.twins or len(self.twins) < TWINS_MAX else "others"] += 1
        return has_restarted
