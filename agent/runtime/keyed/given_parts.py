"""Tells masters what agents that they lack were given, as far as hosts here know it, and hears that of others.

See `agent.runtime.master.lacking_parts` for how the part of such an agent is put together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Protocol

from agent.runtime.fleet.job_directory import JobDirectory
from agent.runtime.keyed.logical_nodes import packed
from agent.runtime.keyed.service import KeyedJobs
from agent.runtime.master.job_masters import JobMasters
from agent.runtime.messages.copies import RUNS_MAX, CopyAck, GivenRequest, GivenResponse
from agent.runtime.messages.handlers import Handler, Handlers, Via
from agent.runtime.messages.jobs import CODEC, Announce
from agent.runtime.messages.sender import MessageSender
from overlay import Id, Peer

if TYPE_CHECKING:
    from agent.runtime.keyed.type_reader import GivenPart


class LongMessages(Protocol):
    """Carries messages of any length to other agents: see `CopySender`."""

    def send(
        self,
        peer: Peer,
        make: Callable[[int], GivenResponse | None],
        settled: Callable[[bool, float], None],
        now: float,
    ) -> None: ...


class GivenParts:
    """The answers of one agent. `told` counts them, `put_together` the parts that masters here have made of such."""

    name = "given"

    def __init__(
        self, sender: MessageSender, long: LongMessages, directory: JobDirectory, keyed: KeyedJobs, masters: JobMasters
    ) -> None:
        self.told = 0
        self._sender, self._long = sender, long
        self._directory, self._keyed, self._masters = directory, keyed, masters

    def handlers(self) -> Handlers:
        return {GivenRequest: Handler(Via.FLEET, self.tell), GivenResponse: Handler(Via.DIRECT, self.take)}

    def statistics(self) -> Mapping[str, int]:
        made = sum(master.lacking.given.made for master in self._masters.held.values())
        return {"told": self.told, "put_together": made}

    def tell(self, message: GivenRequest, now: float) -> bool:
        """Sends the master what agents were given of the logical nodes that are hosted here; False if it is not known
        as master."""
        known = self._directory.get(message.app_id)
        if known is None or known.epoch != message.epoch:
            return False
        for owner in message.owners:
            part = self._keyed.given_to(message.app_id, owner, message.after, message.upto)
            if part is not None and len(part.runs) <= RUNS_MAX:
                self._tell(known, owner, part, now)
        return True

    def _tell(self, known: Announce, owner: Id, part: GivenPart, now: float) -> None:
        self.told += 1
        nodes, begun = packed(part.nodes), self._keyed.begun(known.app_id)
        runs = [CODEC.encode(one) for one in part.runs]

        def make(serial: int) -> GivenResponse:
            return GivenResponse(known.app_id, known.epoch, serial, owner, part.after, part.upto, nodes, begun, runs)

        self._long.send(known.master, make, lambda _held, _now: None, now)

    def take(self, message: GivenResponse, sender: Peer, now: float) -> bool:
        """Gives the job's master, if it is here, what an agent that it lacks was given."""
        master = self._masters.get(message.app_id)
        if master is None or master.state.epoch != message.epoch or master.ended is not None:
            return False
        has_waited_for = partial(self._keyed.has_waited_for, message.app_id, message.owner)
        master.take_given(message, sender, has_waited_for, now)
        self._sender.send(sender, CopyAck(message.app_id, message.serial, True), now)
        return True
