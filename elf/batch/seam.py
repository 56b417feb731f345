"""Where windows from the archive end and a job's own begin: none is missing there, and none comes twice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from elf.batch.live_results import moment_ms

if TYPE_CHECKING:
    from agent import Result as Computed
    from elf.client import Result

PATIENCE_WINDOWS = 16
"""Should no window expect everyone by then, the fleet has fewer agents than the archive: the fullest one will do."""


class Seam:
    """The first live window that expects all agents; those before it are the archive's. `agents`: how many there are.

    A job that has just begun expects an agent only after that has said that it takes part.
    """

    def __init__(self, agents: int) -> None:
        self._agents = agents
        self._live: list[Result] = []
        self._is_found = False

    def add(self, result: Result) -> None:
        """The next live window."""
        self._live.append(result)
        if not self._is_found and result.expected >= self._agents:
            self._begin_with(result)
        elif not self._is_found and len(self._live) > PATIENCE_WINDOWS:
            self._begin_with(max(self._live, key=lambda one: one.expected))

    def end(self) -> None:
        """There are no further live windows."""
        if not self._is_found and self._live:
            self._begin_with(max(self._live, key=lambda one: one.expected))

    def _begin_with(self, result: Result) -> None:
        self._is_found = True
        self._live = self._live[self._live.index(result) :]

    @property
    def is_found(self) -> bool:
        """Whether it is known, with all windows that end together with the first."""
        return self._is_found and any(not one.more for one in self._live)

    @property
    def first_end_ms(self) -> int | None:
        """When the first live window ends (epoch ms)."""
        return moment_ms(self._live[0].window_end) if self._is_found else None

    @property
    def live(self) -> list[Result]:
        """The windows from the seam on, so far."""
        return self._live if self._is_found else []

    def before(self, computed: Iterable[Computed]) -> Iterator[Computed]:
        """Those of the archive's windows that come before it."""
        end_ms = self.first_end_ms
        live = {(one.window_start, one.window_end) for one in self.live}
        for result in computed:
            ends = moment_ms(result.window_end)
            if (result.window_start, result.window_end) in live or ends is None:
                continue
            if end_ms is None or ends <= end_ms:
                yield result
