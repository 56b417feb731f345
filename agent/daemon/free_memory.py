"""Gives free memory back to the system: the C library keeps what lies between blocks in use, however much that is."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import trio

LOOK_S = 0.5
"""Interval at which the work done since the last time is looked at."""
WORK_S = 0.2
"""Processor time after which a working agent gives memory back: a hundred times of what that takes."""
REST_WORK_S, REST_S = 0.02, 0.005
"""Processor time after which one that has come to rest does, and the most that one at rest takes between two looks."""


class FreeMemory:
    """Gives memory back after so much work, and at rest. `used_s` tells the processor time of the process."""

    def __init__(self, used_s: Callable[[], float], give_back: Callable[[], object]) -> None:
        self._used_s, self._give_back = used_s, give_back
        self._looked = self._given = used_s()

    async def run(self) -> None:
        """Looks until it is cancelled."""
        while True:
            await trio.sleep(LOOK_S)
            self.look()

    def look(self) -> None:
        """Gives memory back if that is due."""
        before, self._looked = self._looked, self._used_s()
        work_s = self._looked - self._given
        if work_s >= (REST_WORK_S if self._looked - before <= REST_S else WORK_S):
            self._give_back()
            self._given = self._looked = self._used_s()


def give_back() -> None:
    """Returns all free memory of the C library to the system, where that library can do it."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
