"""One simulated process: a node, or what is left of it."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from overlay.node import Node
from overlay.simulation.clock import Clock
from overlay.wire.ids import id_to_bytes


@dataclass(slots=True, eq=False)
class SimulatedProcess:
    """A node with what its operating system knows of it.

    `incarnation`: how many processes of this node there were. `timer`: the true time of its next timer in the
    queue. `met`: the incarnation of every peer it has a link with. `clock`: None while it is right. `waiting` is what
    has come while it was busy, with its handlers; `is_next`: the first of that is being done.
    """

    node: Node
    incarnation: int
    is_up: bool = True
    stalled_until: float = 0.0
    timer: float | None = None
    clock: Clock | None = None
    met: dict[int, int] = field(default_factory=dict)
    busy_until: float = 0.0
    is_next: bool = False
    waiting: deque[tuple[Callable[[Any], None], object]] = field(default_factory=deque)
    id_bytes: bytes = field(init=False)

    def __post_init__(self) -> None:
        self.id_bytes = id_to_bytes(self.node.peer.node_id)

    def local(self, now: float) -> float:
        """Return what its clock shows."""
        return now if self.clock is None else self.clock.read(now)

    def timer_at(self, now: float) -> float | None:
        """Return the true time at which the node wants to be woken, not before now; None: not at all."""
        timer = self.node.next_timer()
        if timer is None:
            return None
        return max(now, timer if self.clock is None else self.clock.when(timer))
