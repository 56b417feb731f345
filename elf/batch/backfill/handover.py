"""Finds where windows from the archive end and the live ones begin, so that none is missing and none comes twice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from elf.batch.reconcile.live_results import moment_ms

if TYPE_CHECKING:
    from agent import WindowResult
    from elf.client import Result

PATIENCE_WINDOWS = 16
"""Number of live windows to wait for one that expects every agent. After that the fleet has fewer agents than the
archive, and the window that expects most is taken.
"""


@dataclass(frozen=True, slots=True)
class Handover:
    """Live windows from the first one on that expects every agent; earlier windows come from the archive."""

    live: Sequence[Result]

    @property
    def until_ms(self) -> int:
        """End of the first live window (epoch ms)."""
        return moment_ms(self.live[0].window_end) or 0

    def before(self, computed: Iterable[WindowResult]) -> Iterator[WindowResult]:
        """Windows computed from the archive that come before the first live one."""
        live = {(one.window_start, one.window_end) for one in self.live}
        for result in computed:
            ends = moment_ms(result.window_end)
            if ends is not None and ends <= self.until_ms and (result.window_start, result.window_end) not in live:
                yield result


def find_handover(live: Sequence[Result], agents: int, *, is_last: bool = False) -> Handover | None:
    """The handover, or None if the live windows so far do not determine it.

    `agents`: number of agents in the archive; `is_last`: no other live window comes. A job that has just begun expects
    an agent only once the agent has announced itself.
    """
    timed = [number for number, one in enumerate(live) if moment_ms(one.window_end) is not None]
    whole = [number for number in timed if live[number].expected >= agents]
    if not whole and timed and (is_last or len(timed) > PATIENCE_WINDOWS):
        whole = [max(timed, key=lambda number: (live[number].expected, -number))]
    if not whole:
        return None
    handover = Handover(live[whole[0] :])
    # Windows that end together with the first one come right after it.
    return handover if is_last or any(not one.more for one in handover.live) else None
