"""Looking after links now and then: idle ones are closed, stuck ones broken, the least used gives way to a new one."""

from overlay.transport.limits import TransportLimits
from overlay.transport.link.assembly import AssemblyBudget
from overlay.transport.link.link import Link
from overlay.transport.link.refusals import LinkError
from overlay.transport.link.usage import LinkUsage


class Upkeep:
    """Knows how much every link is used. Times are as exact as the looks are frequent."""

    def __init__(self, limits: TransportLimits, budget: AssemblyBudget) -> None:
        self._limits = limits
        self._budget = budget
        self._usage: dict[Link, LinkUsage] = {}

    def add(self, link: Link, now: float) -> None:
        """Look after a link from now on."""
        self._usage[link] = LinkUsage(link, now)

    def remove(self, link: Link) -> None:
        """Forget a link."""
        del self._usage[link]

    def least_used(self, now: float) -> Link | None:
        """Return the link that can best be spared; None when all are busy."""
        spared_s = self._limits.spared_s
        unused = [link for link, usage in self._usage.items() if not link.is_leaving and usage.idle_s(now) >= spared_s]
        return min(unused, key=lambda link: self._usage[link].rate, default=None)

    def is_needed(self, link: Link, now: float) -> bool:
        """Whether a link the peer has no more use for is of use here: something was or will be sent over it."""
        return bool(link.outgoing.queues) or self._usage[link].unused_here_s(now) < self._limits.idle_s

    def look_after_all(self, now: float) -> None:
        """Close links that are idle, break those that are stuck."""
        slow = self._budget.slow(now)
        for link, usage in list(self._usage.items()):
            self._look_after(link, usage, now)
            if link.incoming.reservation in slow:
                link.break_off(LinkError("too slow while others waited"))

    def _look_after(self, link: Link, usage: LinkUsage, now: float) -> None:
        usage.look(now)
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
