"""How many children a node has in a group, and where it sends those who come then.

A node has at most FAN_OUT_MAX children in a group. Who comes then is sent to one of them, who does the same: so a tree
in which many have the same next hop grows downwards. Some places are kept for nodes that had one in the tree before.
"""

import hashlib

from overlay.scribe.group import Group
from overlay.wire.epoch import NEVER
from overlay.wire.ids import id_to_bytes
from overlay.wire.peer import Peer
from overlay.wire.tree_fields import (
    TreeStatus,
)

FAN_OUT_MAX = 32
REPAIR_SLOTS = 4


def next_down(group: Group, sender: Peer) -> Peer:
    """Return the child to send a peer to: for the same peer mostly the same one in all groups, to share heartbeats."""
    sender_id = id_to_bytes(sender.node_id)
    return max(
        group.children.values(),
        key=lambda child: hashlib.blake2b(sender_id + id_to_bytes(child.node_id), digest_size=8).digest(),
    )


def is_full_for(group: Group, sender: Peer, status: TreeStatus) -> bool:
    """Say whether there is no place for a peer that is no child yet."""
    room = FAN_OUT_MAX if status.epoch != NEVER else FAN_OUT_MAX - REPAIR_SLOTS
    return sender.node_id not in group.children and len(group.children) >= room
