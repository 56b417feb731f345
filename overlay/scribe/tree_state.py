"""State shared by the parts of Scribe: a node's groups, the index of their edges, and the outbound batches."""

from overlay.core.outbox import Outbox
from overlay.core.random_source import RandomSource
from overlay.scribe.edges import EdgeIndex
from overlay.scribe.group import Group
from overlay.scribe.outbound_batch import OutboundBatches
from overlay.wire.ids import Id
from overlay.wire.peer import Peer


class TreeState:
    """The groups whose trees one node is in, by key."""

    def __init__(self, own: Peer, outbox: Outbox, random: RandomSource) -> None:
        self.own = own
        self.outbox = outbox
        self.random = random
        self.outbound = OutboundBatches(outbox)
        self.index = EdgeIndex(own)
        self.groups: dict[Id, Group] = {}
