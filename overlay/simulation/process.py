"""One simulated process: a node, or the remains of a crashed one."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from overlay.node import Node
from overlay.simulation.clock import Clock
from overlay.wire.ids import id_to_bytes


@dataclass(slots=True, eq=False)
class SimulatedProcess:
    """A node with the state its operating system would have of it.

    `incarnation`: number of processes this node has had. `timer`: true time of its next timer in the queue. `met`:
    incarnation of every peer it has a link with. `clock`: None while it is right. `waiting`: actions, with their
    handlers, that arrived while the process was busy; `is_next`: the first of these is scheduled.
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
        """Return the time its clock shows."""
        return now if self.clock is None else self.clock.read(now)

    def timer_at(self, now: float) -> float | None:
        """Return the true time of the node's next timer, not before now; None when it has none."""
        timer = self.node.next_timer()
        if timer is None:
            return None
        return max(now, timer if self.clock is None else self.clock.when(timer))
