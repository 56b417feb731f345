"""Where windows from the archive end and a job's own begin: none is missing there, and none comes twice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from elf.batch.reconcile.live_results import moment_ms

if TYPE_CHECKING:
    from agent import Result as Computed
    from elf.client import Result

PATIENCE_WINDOWS = 16
"""Should no window expect everyone by then, the fleet has fewer agents than the archive: the fullest one will do."""


@dataclass(frozen=True, slots=True)
class Handover:
    """Live windows from the first one on that has everybody; those before it are the archive's."""

    live: Sequence[Result]

    @property
    def until_ms(self) -> int:
        """When the first live window ends (epoch ms)."""
        return moment_ms(self.live[0].window_end) or 0

    def before(self, computed: Iterable[Computed]) -> Iterator[Computed]:
        """Those of the archive's windows that come before it."""
        live = {(one.window_start, one.window_end) for one in self.live}
        for result in computed:
            ends = moment_ms(result.window_end)
            if ends is not None and ends <= self.until_ms and (result.window_start, result.window_end) not in live:
                yield result


def find_handover(live: Sequence[Result], agents: int, *, is_last: bool = False) -> Handover | None:
    """The handover, if the live windows so far tell it. `agents`: how many there are; `is_last`: no other window comes.

    A job that has just begun expects an agent only after that has said that it takes part.
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
