"""Lets things go wrong among the agents of a fleet, as a seed has it."""

import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence

from benchmarks.overlay.population import progress
from elf.demo.agents.agents import AgentFleet

from .hosts import HostedFleet, SmallDisks
from .servers import Servers

TICK_S = 0.1
"""Interval at which agents are looked after."""
PAUSE_S = (0.5, 4.0)
"""Shortest and longest time between two faults."""
AWAY_S = (0.3, 12.0)
"""Shortest and longest time for which a fault lasts."""
AWAY_SHARE = 1 / 3
"""Largest part of the fleet to which something happens at once."""
NETWORK = "the network"
"""Stands for what happens to hosts: one cut, or one loss, at a time."""


class Faults:
    """Kills agents and starts them again, stops them for a while, and rotates logs; where the fleet has a network of
    its own, cuts and loses what hosts send, and where agents have disks of their own, fills them. Some agents are
    `spared`, but for what befalls the network.

    `counts`: the faults by kind.
    """

    def __init__(
        self, fleet: AgentFleet, servers: Servers, seed: int, spared: Sequence[str], disks: SmallDisks | None = None
    ) -> None:
        self.counts: Counter[str] = Counter()
        self.ended: list[str] = []
        """Agents that have ended by themselves, with their last words."""
        self._fleet, self._servers, self._disks = fleet, servers, disks
        self._random = random.Random(seed)
        self._names = [name for name in fleet.names if name not in spared]
        self._returns: dict[str, tuple[float, Callable[[str], None]]] = {}
        self._affected: set[str] = set()
        """Hosts that are cut off."""
        self._began = time.monotonic()
        self._kinds = [self._kill, self._kill, self._stop, self._rotate]
        if isinstance(fleet, HostedFleet):
            self._kinds += [self._cut, self._lose]
        if disks is not None:
            self._kinds.append(self._fill)

    @property
    def count(self) -> int:
        return self.counts.total()

    def run(self, seconds: float, check: Callable[[], None]) -> None:
        """Lets things go wrong for so long, and then makes all well again. `check` may raise that all is over."""
        due = 0.0
        while (now := time.monotonic() - self._began) < seconds:
            if now >= due:
                self._act(now)
                due = now + self._random.uniform(*PAUSE_S)
            self._return(now)
            self._look()
            check()
            time.sleep(TICK_S)
        self._return(float("inf"))
        self._fleet.wait_ready(self._fleet.names)

    def _act(self, now: float) -> None:
        busy = self._returns.keys() | self._affected
        there = [name for name in self._names if name not in busy]
        if len(busy) + 1 > AWAY_SHARE * len(self._fleet.names) or not there:
            return
        self._random.choice(self._kinds)(self._random.choice(there), now + self._random.uniform(*AWAY_S))

    def _begin(self, name: str, what: str, until: float, undo: Callable[[str], None]) -> None:
        self._say(name, f"{what} for {until - (time.monotonic() - self._began):.1f} s")
        self.counts[what] += 1
        self._returns[name] = until, undo

    def _kill(self, name: str, until: float) -> None:
        self._begin(name, "is killed", until, self._fleet.launch)
        self._fleet.kill(name)

    def _stop(self, name: str, until: float) -> None:
        self._begin(name, "is stopped", until, self._resume)
        self._fleet.process(name).signal(signal.SIGSTOP)

    def _resume(self, name: str) -> None:
        self._fleet.process(name).signal(signal.SIGCONT)

    def _rotate(self, name: str, _until: float) -> None:
        self._say(name, "has its log rotated")
        self.counts["has its log rotated"] += 1
        self._servers.rotate(name)

    def _cut(self, name: str, until: float) -> None:
        """Cuts off some hosts, this one among them, in both directions or in one."""
        if NETWORK in self._returns or not isinstance(self._fleet, HostedFleet):
            return
        there = [other for other in self._names if other not in self._returns and other != name]
        room = int(AWAY_SHARE * len(self._fleet.names)) - len(self._returns) - 1
        few = [name, *self._random.sample(there, min(len(there), self._random.randint(0, max(0, room))))]
        one_way = self._random.random() < 1 / 3
        self._affected = set(few)
        self._begin(NETWORK, "hears nothing" if one_way else "is cut off", until, self._heal)
        self._say(", ".join(few), "is meant")
        self._fleet.cut(few, one_way=one_way)

    def _lose(self, name: str, until: float) -> None:
        """Loses some of what reaches this host."""
        if NETWORK in self._returns or not isinstance(self._fleet, HostedFleet):
            return
        self._begin(NETWORK, "loses messages", until, self._heal)
        self._say(name, "is meant")
        self._fleet.lose([name])

    def _heal(self, _name: str) -> None:
        assert isinstance(self._fleet, HostedFleet)
        self._fleet.heal()
        self._affected.clear()

    def _fill(self, name: str, until: float) -> None:
        assert self._disks is not None
        self._begin(name, "has a full disk", until, self._disks.free)
        self._disks.fill(name)

    def _return(self, now: float) -> None:
        for name in [name for name, (due, _) in self._returns.items() if due <= now]:
            _, bring_back = self._returns.pop(name)
            self._say(name, "is well again")
            bring_back(name)

    def _look(self) -> None:
        """Notes agents that have ended by themselves, and starts them again."""
        for name in self._fleet.names:
            if name not in self._returns and not self._fleet.is_running(name):
                self.ended.append(f"{name}: {self._fleet.process(name).last_words()}")
                self._say(name, f"has ended by itself: {self._fleet.process(name).last_words()}")
                self._fleet.launch(name)

    def _say(self, name: str, what: str) -> None:
        progress(f"{time.monotonic() - self._began:6.1f} s  {name} {what}")
