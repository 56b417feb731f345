"""Brings an agent into its fleet: through one of its seeds, however long that takes, or as the first agent.

The agent dials every seed and joins through the first that answers. If none answers, or the join fails, it tries again
forever, at growing intervals. An agent without other seeds begins the overlay. A seed does so too after a while in
which no other seed let it in, since the agents that name it wait for it. If several seeds began at once, or the
network was cut, agents later greet seeds they do not know any more, and the rings merge.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

import trio

from agent import log
from agent.driver import CoreDriver
from agent.seeding.seed_addresses import FoundSeeds, find_seeds, is_looked_up
from overlay import ConnectError, Peer, RandomSource, UnknownHostError

LONELY_S = 2.0
"""Delay before a seed that gets no answer begins the overlay."""
UNHEARD_S = 5.0
"""Delay before a seed begins the overlay if others answer but do not let it in: they may all wait for each other."""
STAGGER_S = 0.5
"""Additional delay for each place in the list of seeds, so that they begin one after the other."""
JOIN_PATIENCE_S = 2.0
"""Time a seed has to let this agent in before another is tried."""
RETRY_MIN_S, RETRY_MAX_S = 0.2, 15.0
RETRY_SHARE = 0.15
"""Share of the time spent so far that a pause lasts."""
SILENT_S, SILENT_ANSWERED_S = 3.0, 10.0
"""Delay before trouble is logged, without an answer and with one: short trouble is not worth a line."""
SAY_EVERY_S = 60.0
MEET_FIRST_S, MEET_LONELY_S, MEET_S = 1.0, 15.0, 60.0
"""Intervals at which unknown seeds are greeted: first after beginning alone, then while alone, then in a fleet."""


@dataclass(slots=True)
class _Attempts:
    """Outcome of the attempts to join so far."""

    began: float
    silent_until: float
    failures: dict[str, str] = field(default_factory=dict)
    answered: bool = False
    asked: set[int] = field(default_factory=set)


class Seeds:
    """Brings one agent into its fleet and keeps it connected. `identify` is the transport's.

    `entries` name seeds: see `agent.seeding.seed_addresses`. What they name is looked up again before each attempt.
    """

    def __init__(
        self,
        entries: Sequence[str],
        pump: CoreDriver,
        identify: Callable[[str], Awaitable[Peer]],
        random: RandomSource,
    ) -> None:
        self._own = pump.node.peer
        self._entries = tuple(entries)
        self._looks_up = any(map(is_looked_up, self._entries))
        self._itself = {self._own.address}
        self._faults: dict[str, str] = {}
        self._position: int | None = None
        self._others: list[str] = []
        self._pump = pump
        self._identify = identify
        self._random = random
        self._is_first = False
        self._unknown: set[str] = set()  # seeds whose names were not found: said already

    async def run(self) -> None:
        """Joins, then greets seeds that are no longer known; returns only if there are no other seeds."""
        self._use(FoundSeeds(self._entries, {}) if not self._looks_up else await self._found())
        if self._others or self._faults:
            await self._join()
        else:
            self._begin()
        if self._others or self._looks_up:
            await self._keep_in_touch()

    async def _found(self) -> FoundSeeds:
        return await trio.to_thread.run_sync(find_seeds, self._entries, abandon_on_cancel=True)

    def _use(self, found: FoundSeeds) -> None:
        """Takes the addresses that the entries name now; where one names none, those before stay too."""
        addresses = [*found.addresses, *(self._others if found.faults else ())]
        own = next((at for at, address in enumerate(addresses) if address in self._itself), None)
        self._position = self._position if own is None else own
        self._others = [address for address in dict.fromkeys(addresses) if address not in self._itself]
        self._faults = found.faults

    def _begin(self) -> None:
        log.info("first of the fleet", reason="no other seed answers" if self._others else "no seeds")
        self._is_first = True

        def begin(now: float) -> None:
            if not self._pump.node.is_active:
                self._pump.node.leave(now)  # whom it has asked to let it in
                self._pump.node.start(now)

        self._pump.do(begin)

    async def _join(self) -> None:
        began = trio.current_time()
        attempts = _Attempts(began, began + SILENT_S)
        while not self._pump.node.is_active:
            if self._looks_up:
                self._use(await self._found())
            attempts.failures = {
                name: reason for name, reason in attempts.failures.items() if name in self._others
            } | self._faults
            contact = await self._first_answer(attempts)
            if contact is not None:
                attempts.answered = True
                attempts.asked.add(contact.node_id)
                await self._join_through(contact)
            if self._pump.node.is_active:
                return
            if self._may_begin(attempts):
                self._begin()
                return
            self._complain(attempts)
            with trio.move_on_after(self._pause(attempts)):
                await self._pump.until(lambda: self._pump.node.is_active)

    async def _join_through(self, contact: Peer) -> None:
        self._pump.do(lambda now: None if self._pump.node.is_active else self._pump.node.join(contact, now))
        with trio.move_on_after(JOIN_PATIENCE_S):
            await self._pump.until(lambda: self._pump.node.is_active)

    async def _first_answer(self, attempts: _Attempts) -> Peer | None:
        """The seed that answers first, preferring seeds not asked yet; None if none answers."""
        answers: list[Peer] = []
        async with trio.open_nursery() as nursery:

            async def ask(address: str) -> None:
                peer = await self._ask(address, attempts)
                if peer is not None:
                    answers.append(peer)
                    if peer.node_id not in attempts.asked:
                        nursery.cancel_scope.cancel()

            for address in list(self._others):
                nursery.start_soon(ask, address)
        if not answers:
            return None
        if answers[-1].node_id in attempts.asked:
            attempts.asked.clear()
        return answers[-1]

    async def _ask(self, address: str, attempts: _Attempts) -> Peer | None:
        try:
            peer = await self._identify(address)
        except ConnectError as error:
            attempts.failures[address] = str(error)
            if isinstance(error, UnknownHostError) and address not in self._unknown:
                # Most likely misspelt: time alone will not mend it, so this is said at once.
                self._unknown.add(address)
                log.warn("the host name of a seed is not found", seed=address)
            return None
        attempts.failures.pop(address, None)
        self._unknown.discard(address)
        if peer.node_id != self._own.node_id:
            return peer
        # It is this agent itself, under a name of which it did not know.
        self._position = self._position or 0
        self._itself.add(address)
        if address in self._others:
            self._others.remove(address)
        return None

    def _may_begin(self, attempts: _Attempts) -> bool:
        if self._position is None:
            return False
        patience_s = UNHEARD_S if attempts.answered else LONELY_S
        return not self._others or trio.current_time() - attempts.began >= patience_s + STAGGER_S * self._position

    def _complain(self, attempts: _Attempts) -> None:
        now = trio.current_time()
        if now < attempts.silent_until or (attempts.answered and now < attempts.began + SILENT_ANSWERED_S):
            return
        attempts.silent_until = now + SAY_EVERY_S
        waited_s = round(now - attempts.began)
        if attempts.failures:
            log.warn("no seed lets this agent in, trying again", failures=_listed(attempts.failures), waited_s=waited_s)
        else:
            log.warn("the seeds answer, but none lets this agent in; trying again", waited_s=waited_s)

    def _pause(self, attempts: _Attempts) -> float:
        spent_s = trio.current_time() - attempts.began
        pause_s = min(RETRY_MAX_S, max(RETRY_MIN_S, RETRY_SHARE * spent_s))
        return pause_s * (0.75 + 0.5 * self._random.random())

    # In the fleet.

    async def _keep_in_touch(self) -> None:
        pause_s = MEET_FIRST_S if self._is_first else MEET_S
        while True:
            await trio.sleep(pause_s * (0.75 + 0.5 * self._random.random()))
            if self._looks_up:
                self._use(await self._found())
            lonely = self._is_first or not self._pump.node.leaf_set.members
            if self._pump.node.is_active and self._others:
                await self._meet(self._others[int(self._random.random() * len(self._others))])
            pause_s = MEET_LONELY_S if lonely else MEET_S

    async def _meet(self, address: str) -> None:
        """Greets a seed that this agent does not know."""
        node = self._pump.node
        if any(peer.address == address for peer in (*node.leaf_set.members, *node.routing_table)):
            self._is_first = False
            return
        peer = await self._ask(address, _Attempts(0.0, 0.0))
        if peer is not None:
            self._pump.do(lambda now: node.meet(peer, now))


def _listed(failures: Mapping[str, str]) -> list[str]:
    return [failures[address] for address in sorted(failures)]
