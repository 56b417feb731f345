"""State shared by all links of a transport."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from overlay.transport.link.assembly import AssemblyBudget

Spawn = Callable[[Callable[[], Awaitable[None]]], object]


class LinkCounters:
    """Traffic over all links of a transport."""

    __slots__ = ("bytes_in", "bytes_out", "frames_in", "frames_out")

    def __init__(self) -> None:
        self.bytes_in = self.bytes_out = self.frames_in = self.frames_out = 0


@dataclass(frozen=True, slots=True)
class LinkContext:
    """Counters, budget and settings shared by all links of a transport."""

    counters: LinkCounters
    budget: AssemblyBudget
    spawn: Spawn
    compress: bool
