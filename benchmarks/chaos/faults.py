"""Lets things go wrong among the agents of a fleet, as a seed has it."""

import random
import signal
import time
from collections.abc import Callable, Sequence

from benchmarks.overlay.population import progress
from elf.demo.agents.agents import AgentFleet

from .servers import Servers

PAUSE_S = (0.5, 4.0)
"""Shortest and longest time between two faults."""
AWAY_S = (0.3, 12.0)
"""Shortest and longest time for which an agent is away."""
AWAY_SHARE = 1 / 3
"""Largest part of the fleet that is away at once."""


class Faults:
    """Kills agents and starts them again, stops them for a while, and rotates logs; some agents are `spared`."""

    def __init__(self, fleet: AgentFleet, servers: Servers, seed: int, spared: Sequence[str]) -> None:
        self.count = 0
        self.ended: list[str] = []
        """Agents that have ended by themselves, with their last words."""
        self._fleet, self._servers = fleet, servers
        self._random = random.Random(seed)
        self._names = [name for name in fleet.names if name not in spared]
        self._returns: dict[str, tuple[float, Callable[[str], None]]] = {}
        self._began = time.monotonic()

    def run(self, seconds: float) -> None:
        """Lets things go wrong for so long, and then makes all well again."""
        due = 0.0
        while (now := time.monotonic() - self._began) < seconds:
            if now >= due:
                self._act(now)
                due = now + self._random.uniform(*PAUSE_S)
            self._return(now)
            self._look()
            time.sleep(TICK_S)
        self._return(float("inf"))
        self._fleet.wait_ready(self._fleet.names)

    def _act(self, now: float) -> None:
        there = [name for name in self._names if name not in self._returns]
        if len(self._returns) + 1 > AWAY_SHARE * len(self._fleet.names) or not there:
            return
        self.count += 1
        name, act = self._random.choice(there), self._random.choice((self._kill, self._kill, self._stop, self._rotate))
        act(name, now + self._random.uniform(*AWAY_S))

    def _kill(self, name: str, until: float) -> None:
        self._say(name, "is killed")
        self._fleet.kill(name)
        self._returns[name] = until, self._fleet.launch

    def _stop(self, name: str, until: float) -> None:
        self._say(name, "is stopped")
        self._fleet.process(name).signal(signal.SIGSTOP)
        self._returns[name] = until, self._resume

    def _resume(self, name: str) -> None:
        self._fleet.process(name).signal(signal.SIGCONT)

    def _rotate(self, name: str, _until: float) -> None:
        self._say(name, "has its log rotated")
        self._servers.rotate(name)

    def _return(self, now: float) -> None:
        for name in [name for name, (due, _) in self._returns.items() if due <= now]:
            _, bring_back = self._returns.pop(name)
            self._say(name, "is back")
            bring_back(name)

    def _look(self) -> None:
        """Notes agents that have ended by themselves, and starts them again."""
        for name in self._fleet.names:
            if name not in self._returns and not self._fleet.is_running(name):
                self.ended.append(f"{name}: {self._fleet.process(name).last_words()}")
                self._fleet.launch(name)

    def _say(self, name: str, what: str) -> None:
        progress(f"{time.monotonic() - self._began:6.1f} s  {name} {what}")


TICK_S = 0.1
"""Interval at which agents are looked after."""
