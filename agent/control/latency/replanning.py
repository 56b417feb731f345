"""Plans running jobs anew, by what they have measured: which setting is to be in force, or what can be met."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import trio

from agent import log
from agent.control.latency.measurements import choices_of, known_of, percent_of, setting_of, with_setting
from agent.control.observation.latency_view import described_latency
from agent.runtime.messages.plans import PlanAnswer, PlanQuestion
from overlay import Id
from query.latency.planner import LatencyRefusal, is_replaced, plan, review

MISSED = "the limit is missed until another setting may be put in force"


class PlanningThread:
    """Answers the questions of the masters on one agent one after the other, in a thread. `answer` takes answers."""

    def __init__(self, answer: Callable[[PlanAnswer], None]) -> None:
        self._answer = answer
        self._questions: dict[Id, PlanQuestion] = {}
        """The last question of each job that waits."""
        self._asked = trio.Event()

    def ask(self, question: PlanQuestion) -> None:
        """Queues a question, in place of one of the same job that waits."""
        self._questions[question.app_id] = question
        self._asked.set()

    async def run(self) -> None:
        """Answers questions until it is cancelled."""
        while True:
            await self._asked.wait()
            self._asked = trio.Event()
            while self._questions:
                question = self._questions.pop(next(iter(self._questions)))
                try:
                    answer = await trio.to_thread.run_sync(replanned, question, abandon_on_cancel=True)
                except ValueError as error:  # measurements of peers, which may be anything
                    log.warn("a job is not planned anew", job=question.view.name, why=str(error))
                else:
                    self._answer(answer)


def replanned(question: PlanQuestion) -> PlanAnswer:
    """The prediction of a job's setting in force by what is known by now, and the setting that is to follow it, if one
    is as much better as `is_replaced` says. A second of a processor."""
    found, told = question.plan, described_latency(question.view)
    within = found.within
    assert within is not None
    known = known_of(question.basis, told, max(1, told.contributors), is_same=True)
    known = replace(known, longer=question.longer)
    limit_ms, percent = within.limit_ms, percent_of(within)
    held = review(setting_of(found), limit_ms, percent, known)
    best = plan(limit_ms, percent, known, choices=replace(choices_of(found, told), trees=(found.trees,)))
    answer = PlanAnswer(question.app_id, question.number, held.now)
    if isinstance(best, LatencyRefusal):
        return replace(answer, outcome=f"out of reach: {best.reason}", is_out_of_reach=True)
    if not question.may_turn or not is_replaced(held, best, question.held_s):
        return answer if held.now.quantile <= held.limit else replace(answer, outcome=best.warning or MISSED)
    setting = f"GRACE {round(1000 * best.setting.grace):,} ms"
    if best.setting.look != held.setting.look:
        setting += f", looks each {round(1000 * best.setting.look):,} ms"
    if best.setting.cuts != held.setting.cuts:
        setting += f", panes cut in {best.setting.cuts}" if best.setting.cuts > 1 else ", panes not cut"
    return replace(answer, wanted=(with_setting(found, best.setting), best.now), outcome=f"replanned: {setting}")
