"""Maintains links: closes idle ones, breaks stuck ones, and picks the least used to give way to a new one."""

from overlay.transport.limits import TransportLimits
from overlay.transport.link.assembly import AssemblyBudget
from overlay.transport.link.link import Link
from overlay.transport.link.refusals import LinkError
from overlay.transport.link.usage import LinkUsage


class Upkeep:
    """Tracks the use of every link. Times are as exact as the calls are frequent."""

    def __init__(self, limits: TransportLimits, budget: AssemblyBudget) -> None:
        self._limits = limits
        self._budget = budget
        self._usage: dict[Link, LinkUsage] = {}

    def add(self, link: Link, now: float) -> None:
        """Start tracking a link."""
        self._usage[link] = LinkUsage(link, now)

    def remove(self, link: Link) -> None:
        """Stop tracking a link."""
        del self._usage[link]

    def least_used(self, now: float) -> Link | None:
        """Return the least used idle link; None when all are busy."""
        spared_s = self._limits.spared_s
        unused = [link for link, usage in self._usage.items() if not link.is_leaving and usage.idle_s(now) >= spared_s]
        return min(unused, key=lambda link: self._usage[link].rate, default=None)

    def is_needed(self, link: Link, now: float) -> bool:
        """Whether this side needs a link that the peer does not: messages were sent over it recently or are queued."""
        return bool(link.outgoing.queues) or self._usage[link].unused_here_s(now) < self._limits.idle_s

    def maintain_all(self, now: float) -> None:
        """Close idle links, break stuck ones."""
        slow = self._budget.slow(now)
        for link, usage in list(self._usage.items()):
            self._maintain(link, usage, now)
            if link.incoming.reservation in slow:
                link.break_off(LinkError("too slow while others waited"))

    def _maintain(self, link: Link, usage: LinkUsage, now: float) -> None:
        usage.update(now)
        quiet_s, idle_s = usage.quiet_s(now), usage.idle_s(now)
        if usage.stuck_s(now) > self._limits.stall_s:
            link.break_off(LinkError("stalled", f"it took nothing for {self._limits.stall_s:g} s"))
        elif link.is_leaving:
            if quiet_s > self._limits.goodbye_s:
                link.break_off(LinkError("no goodbye"))
        elif link.is_asking:
            if quiet_s > self._limits.goodbye_s:
                link.leave()
        elif min(idle_s, quiet_s) > self._limits.idle_s:
            link.ask()
