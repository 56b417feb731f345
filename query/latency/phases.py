"""The twelve phases between a line that is written and a result that is delivered, in their order.

Table 2 of the paper (section 3.2) has twelve phases of a tuple in a system of mappers and reducers; these are ELF's.
"""

from __future__ import annotations

from enum import Enum, IntEnum


class PhaseKind(Enum):
    """The cause of a phase's time, which says how it is modelled."""

    POLL = "poll"
    """Waits for the next look at a file."""
    CPU = "cpu"
    """Work: what it needs over the share of a processor that it gets."""
    QUEUE = "queue"
    """Waits behind other work of the same agent."""
    TIMER = "timer"
    """Waits as long as the query says."""
    NETWORK = "network"
    """On its way to another agent, or to a client."""
    BARRIER = "barrier"
    """Waits for all children, then works."""
    REPLICATION = "replication"
    """Waits until others hold it."""


class Phase(IntEnum):
    """A phase; its number is its place in the order, and its name on the wire.

    >>> Phase.CLOSE.kind
    <PhaseKind.TIMER: 'timer'>
    >>> [phase.label for phase in Phase][:3]
    ['tail', 'read wait', 'parse']
    """

    TAIL = 0
    """A line was written; the next look at its file finds it."""
    READ_WAIT = 1
    """A block of lines was found; its parsing begins. Blocks of the same agent queue."""
    PARSE = 2
    """A block is decoded into columns."""
    INSERT = 3
    """Rows are filtered, lifted, grouped, and inserted into the tree of buffers; Python `map` functions too."""
    CLOSE = 4
    """A pane has ended; GRACE passes. The next look that comes to the ends of its sources, or finds a line from beyond,
    lets the watermark pass; that this look is awaited, and what it finds, is in the phases before."""
    SEAL_WAIT = 5
    """A pane is closed; its sealing begins. Panes of several jobs that end together are sealed in a known order."""
    SEAL = 6
    """A pane is flushed, encoded and written to disk."""
    UPLINK = 7
    """A run is on its way to the parent; once for each level of the tree."""
    COMBINE = 8
    """All children's runs are there and are merged; once for each level of the tree."""
    FINISH = 9
    """Panes are merged into the window; HAVING, ORDER BY and LIMIT are applied."""
    COMMIT = 10
    """A result is held back until its order is certain and neighbours hold its commit."""
    DELIVER = 11
    """A result is on its way to the client."""

    @property
    def kind(self) -> PhaseKind:
        """The cause of the phase's time."""
        return _KINDS[self]

    @property
    def label(self) -> str:
        """The name for people: `read wait`."""
        return self.name.lower().replace("_", " ")


_KINDS = {
    Phase.TAIL: PhaseKind.POLL,
    Phase.READ_WAIT: PhaseKind.QUEUE,
    Phase.PARSE: PhaseKind.CPU,
    Phase.INSERT: PhaseKind.CPU,
    Phase.CLOSE: PhaseKind.TIMER,
    Phase.SEAL_WAIT: PhaseKind.QUEUE,
    Phase.SEAL: PhaseKind.CPU,
    Phase.UPLINK: PhaseKind.NETWORK,
    Phase.COMBINE: PhaseKind.BARRIER,
    Phase.FINISH: PhaseKind.CPU,
    Phase.COMMIT: PhaseKind.REPLICATION,
    Phase.DELIVER: PhaseKind.NETWORK,
}
AGENT_PHASES = tuple(phase for phase in Phase if phase <= Phase.SEAL)
"""Phases at each agent, before its run leaves."""
LEVEL_PHASES = (Phase.UPLINK, Phase.COMBINE)
"""Phases at each level of the tree."""
MASTER_PHASES = (Phase.FINISH, Phase.COMMIT, Phase.DELIVER)
"""Phases at the root and behind it."""
