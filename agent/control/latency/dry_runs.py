"""Runs queries dry: asks some agents for what a query's work would cost them, and answers other agents.

Each answers by the last lines of its logs (`agent.calibration.dry_run`), one question after the other, in a thread.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import msgspec
import polars as pl
import trio

import query as ql
from agent.access.decision import Access
from agent.calibration.dry_run import NoDryRunError, check_dry, run_dry
from agent.calibration.machine import MachineCosts
from agent.configuration.config import StreamConfig
from agent.control import messages as control
from agent.control.latency.samples import clipped
from agent.control.observation.fleet_tap import refusal_of
from agent.control.pending_replies import NO_ANSWER, NOT_JOINED, PendingReply
from agent.control.question_queue import QuestionQueue
from agent.driver import CoreDriver
from agent.runtime.agent import Agent
from agent.runtime.messages.sender import FLEET_GROUP
from agent.runtime.messages.views.dry_runs import DryRun, DryRunView
from agent.runtime.requests.events import DryRunAsked, DryRunsDone, StreamSurveyed
from overlay import Peer

ASKED_MAX = 8
"""Upper bound on the agents that run a query dry."""
WAITING_MAX = 4
"""Upper bound on questions that wait; further ones get no answer."""
REFUSAL_CHARACTERS_MAX = 200


@dataclass(frozen=True, slots=True)
class DryRunClocks:
    """`worked` tells the seconds for which the process has worked, `timer` those that have passed, `wall_ms` the epoch
    time."""

    worked: Callable[[], float]
    timer: Callable[[], float]
    wall_ms: Callable[[], int]


class DryRunAnswers:
    """Answers other agents' questions, and this one's own. `machine`: what work costs here; None: not known yet."""

    def __init__(
        self,
        driver: CoreDriver,
        agent: Agent,
        access: Access,
        streams: Callable[[], Iterable[StreamConfig]],
        machine: Callable[[], MachineCosts | None],
        clocks: DryRunClocks,
    ) -> None:
        self._driver, self._agent, self._access = driver, agent, access
        self._streams, self._machine, self._clocks = streams, machine, clocks
        self._questions: QuestionQueue[DryRunAsked] = QuestionQueue(WAITING_MAX)
        self.ask = self._questions.ask

    async def run(self) -> None:
        """Answers one question after the other until it is cancelled, and rests as long as each has taken."""
        while True:
            asked = await self._questions.next()
            begun = trio.current_time()
            view = await trio.to_thread.run_sync(self._view, asked.message, abandon_on_cancel=True)
            self._driver.do(partial(self._agent.discovery.give_dry_run, asked, view))
            await trio.sleep(trio.current_time() - begun)

    def _view(self, message: DryRun) -> DryRunView:
        """The answer to a question. Blocks for two seconds at most, or for a block if that takes longer."""
        answer = partial(DryRunView, FLEET_GROUP, message.question, self._agent.name)
        try:
            plan = ql.Plan.from_wire(message.plan)
            streams = [one for one in self._streams() if ql.selects(plan.streams_read, one.name)]
            for one in streams:
                if (refusal := refusal_of(self._access, message.owner, one.name)) is not None:
                    return answer(refusal=refusal[:REFUSAL_CHARACTERS_MAX])
            clocks = self._clocks
            found = run_dry(plan, streams, self._machine(), clocks.worked, clocks.timer, clocks.wall_ms())
        except (NoDryRunError, ql.PlanError, ql.QueryError) as error:
            return answer(refusal=str(error)[:REFUSAL_CHARACTERS_MAX])
        except (Exception, pl.exceptions.PanicException) as error:  # whatever its data makes a query raise
            return answer(refusal=f"it fails on the lines here: {error!r}"[:REFUSAL_CHARACTERS_MAX])
        times, costs = found.times, [(int(phase), *cost) for phase, cost in found.costs.items()]
        return answer(
            lines=found.lines, rate=times.rate, doubt=times.doubt,
            groups=(*found.groups,), group_bytes=found.group_bytes, late=times.late.to_bytes(), costs=costs,
            share=found.share,
        )  # fmt: skip


class DryRunQuestions:
    """Asks agents on behalf of this one's clients."""

    def __init__(self, driver: CoreDriver, agent: Agent) -> None:
        self._driver, self._agent = driver, agent

    async def ask(self, plan: ql.Plan, owner: str) -> control.DryRuns | control.Refused:
        """Has some agents run a plan dry that have its stream, for a client who may read it. Some seconds at most."""
        try:
            check_dry(plan)
        except NoDryRunError as error:
            return control.Refused("usage", str(error))
        if not self._driver.node.is_active:
            return control.Refused("unavailable", NOT_JOINED)
        surveyed: PendingReply[StreamSurveyed] = PendingReply()
        self._driver.do(partial(self._agent.discovery.ask, plan.streams_read, surveyed.resolve))
        if (found := await surveyed.wait()) is None:
            return control.Refused("unavailable", NO_ANSWER)
        having = [peer for peer, one in found.answers.items() if one.has_stream]
        asked = len(found.answers) + found.silent
        if not having:
            return control.DryRuns(0, asked, found.silent)
        done: PendingReply[DryRunsDone] = PendingReply()
        question = partial(_question, plan, owner)
        some = some_of(having)
        self._driver.do(partial(self._agent.discovery.ask_dry_runs, some, question, done.resolve))
        told = await done.wait()
        runs = described(() if told is None else told.answers.values(), len(having), asked, found.silent)
        return msgspec.structs.replace(runs, unanswered=len(some) if told is None else told.silent)


def _question(plan: ql.Plan, owner: str, number: int) -> DryRun:
    return DryRun(FLEET_GROUP, number, plan.to_wire(), owner)


def some_of(agents: Sequence[Peer]) -> list[Peer]:
    """At most ASKED_MAX of the agents, at even distances on the ring, which their places have nothing to do with."""
    ordered = sorted(agents, key=lambda peer: peer.node_id)
    step = max(1.0, len(ordered) / ASKED_MAX)
    return [ordered[math.floor(place * step)] for place in range(min(len(ordered), ASKED_MAX))]


def described(views: Iterable[DryRunView], agents: int, asked: int, silent: int) -> control.DryRuns:
    """The answers of agents, which may hold anything, for a client."""
    samples, refused, count = [], {}, 0
    for view in sorted(views, key=lambda one: one.agent):
        if view.refusal:
            refused[view.agent] = view.refusal
            continue
        sample, changed = clipped(view)
        samples.append(sample)
        count += changed
    return control.DryRuns(agents, asked, silent, samples, refused, clipped=count)
