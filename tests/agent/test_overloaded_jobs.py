"""Jobs of one agent that together want more of its processor than there is (WITHIN ... ELSE PARTIAL)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import polars as pl
import pytest
from program_fleet import ProgramFleet, Turns
from recording_client import client_of
from simulated_fleet import key_of
from virtual_agent import PER_S, VirtualAgent

from agent import Agent, Update, WindowResult
from agent.programs.calls import EventsMapped, read_act
from agent.programs.commands import ProgramSaid, StartProgram, TellProgram
from agent.runtime.function.job_function import JobFunction
from agent.runtime.ingest import event_batch
from agent.runtime.ingest.event_batch import EventBatch
from agent.runtime.ingest.in_time import waiting_events
from agent.runtime.ingest.in_time.code_turns import CodeTurns
from agent.runtime.ingest.mapped import MappedPipeline, _Batch
from agent.runtime.ingest.operator import Operator
from agent.runtime.model.work_budget import OverBudgetError, WorkBudgets
from agent.runtime.requests.events import AgentObserver
from agent.runtime.scheduling.lots import Lot
from overlay import Id

TIMED = "WINDOWING 1 SECOND GRACE 250 MILLISECONDS WITHIN 2 SECONDS"
JOBS = {
    "few": f"SELECT COUNT(*) AS n FROM web {TIMED} ELSE PARTIAL",
    "some": f"SELECT product, COUNT(*) AS n FROM web GROUP BY product {TIMED} ELSE PARTIAL",
    "many": f"SELECT page, COUNT(*) AS n FROM web GROUP BY page {TIMED} ELSE PARTIAL",
}
PATIENT = f"SELECT shop, COUNT(*) AS n FROM web GROUP BY shop {TIMED} ELSE LATE"
COSTS_S = {"": 1e-4, "product": 3e-4, "page": 1.4e-3, "shop": 2e-4}
"""1.8 processors for the three jobs: two of them want less than their share."""


def lived(patch: pytest.MonkeyPatch, jobs: dict[str, str]) -> tuple[VirtualAgent, dict[str, list[WindowResult]]]:
    """An overload of ten seconds, and five of calm."""
    agent = VirtualAgent(patch=patch, costs_s=COSTS_S)
    agent.submit_all(jobs)
    agent.go_on(1.0, per_s=300)
    agent.go_on(10.0)
    agent.go_on(5.0, per_s=300)
    return agent, agent.windows()


def test_jobs_within_their_share_lose_nothing_and_all_recover(monkeypatch: pytest.MonkeyPatch) -> None:
    agent, windows = lived(monkeypatch, JOBS)
    for one in (*windows["few"], *windows["some"]):
        assert (one.late, one.partial, one.contributors) == (0, [], 1), "they want less than their share"
    many = windows["many"]
    assert agent.agents[0].ingest.statistics()["abandoned"] == sum(one.late for one in many) > 0
    overloaded = [one for one in many if one.late or one.partial]
    assert all(one.partial == ["agent-0"] for one in overloaded), "what lacks events says so"
    done_s = sum(COSTS_S["page"] * one.events for one in overloaded[:-1])
    assert done_s >= 0.85 * (1 - PER_S * (COSTS_S[""] + COSTS_S["product"])) * len(overloaded[:-1]), "all that is left"
    assert [(one.late, one.partial) for one in many[-3:]] == [(0, [])] * 3
    written = [one.events for one in windows["few"]]
    assert sum(one.events + one.late for one in many) == sum(written), "each event is in its window, or late"


def test_a_log_is_not_read_on_while_so_many_events_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting_events, "WAITING_ROWS_MAX", 150)
    agent = VirtualAgent(patch=monkeypatch, costs_s=COSTS_S)
    agent.submit_all({"many": JOBS["many"]})
    agent.go_on(3.0)
    assert agent.turned_away
    agent.go_on(4.0, per_s=0)
    assert agent.read == len(agent.writes), "it is read when they are done"
    counted = sum(one.events + one.late for one in agent.windows()["many"])
    assert counted == sum(agent.writes), "each event is in its window, or late"


def test_a_job_that_waits_loses_nothing_beside_one_that_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    _, windows = lived(monkeypatch, {"many": JOBS["many"], "patient": PATIENT})
    assert sum(one.late for one in windows["many"]) > 0
    assert [(one.late, one.partial) for one in windows["patient"]] == [(0, [])] * len(windows["patient"])
    lengths = [one.events for one in windows["patient"]]
    assert sum(lengths[1:12]) >= 10 * PER_S


def test_a_job_that_waits_marks_what_is_late_and_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    waits = JOBS["many"].replace("ELSE PARTIAL", "ELSE LATE")
    agent, windows = lived(monkeypatch, {"waits": waits, "few": JOBS["few"]})
    found = windows["waits"]
    assert [(one.late, one.partial, one.contributors) for one in found] == [(0, [], 1)] * len(found)
    overloaded = found[2:10]
    assert len(overloaded) >= 4
    assert [one.events for one in overloaded] == [PER_S] * len(overloaded), "all that was written"
    master = agent.agents[0].masters.get(key_of("waits"))
    assert master is not None
    counted = master.latency.recent.statistics()
    assert 0 < counted.missed < counted.results
    assert counted.missed + counted.met == counted.results


def test_events_that_jobs_insert_as_they_seal_are_put_together_once(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = VirtualAgent(patch=monkeypatch, costs_s={})
    agent.submit_all({"few": JOBS["few"], "some": JOBS["some"]})
    agent.began_ms = 0  # it reads what it is given here
    made, batches_of = list[int](), event_batch.batches_of

    def note(frames: Sequence[pl.DataFrame], function: JobFunction) -> list[EventBatch]:
        made.append(sum(frame.height for frame in frames))
        return batches_of(frames, function)

    monkeypatch.setattr(event_batch, "batches_of", note)
    agent.insert(0, agent.events(200, agent.wall_ms))
    for _ in range(8):
        agent.wait(0.25)
        agent.catch_up()
    assert made == [200]


@pytest.mark.parametrize("end", ["raises", "takes too long"])
def test_a_job_whose_gathered_events_cannot_be_inserted_ends_alone(monkeypatch: pytest.MonkeyPatch, end: str) -> None:
    monkeypatch.setattr(AgentObserver, "job_contained", lambda *_: None)
    agent = VirtualAgent(2, patch=monkeypatch, costs_s={"": 4e-4, "product": 1e-3})
    agent.submit_all({"wrong": JOBS["some"], "few": JOBS["few"]})
    assert agent.agents[1].masters.get(key_of("wrong")) is not None, "agents without the master leave a job at once"
    agent.go_on(0.5)
    fail(monkeypatch, "wrong", end)
    agent.go_on(3.5)
    (operator,) = agent.agents[0].ingest
    assert [consumer.app_id for consumer in operator.consumers] == [key_of("few")]
    few = agent.windows()["few"][1:]
    assert [(one.events, one.late, one.partial) for one in few] == [(PER_S, 0, [])] * len(few)
    assert len(few) >= 2


def fail(patch: pytest.MonkeyPatch, app: str, end: str) -> None:
    """Has a job end when its events are inserted, as it raises, or as it is over its budget then."""
    insert, charge, over = Operator.insert_waiting, WorkBudgets.charge, list[Id]()

    def insert_waiting(operator: Operator) -> None:
        if any(consumer.app_id == key_of(app) for consumer in operator.consumers):
            if end == "raises":
                raise KeyError("no such column")
            over.append(key_of(app))
        insert(operator)

    def charge_over(budgets: WorkBudgets, app_id: Id, work_s: float, rows: int, now: float) -> None:
        if app_id in over:
            raise OverBudgetError("its expressions take too long")
        charge(budgets, app_id, work_s, rows, now)

    patch.setattr(Operator, "insert_waiting", insert_waiting)
    patch.setattr(WorkBudgets, "charge", charge_over)


class CodedAgent(ProgramFleet, VirtualAgent):
    """An agent beside a program on a processor of its own, which takes its time for each event."""

    program_s = 1.4e-3
    program_free_at = 0.0

    def _obey(self, agent: Agent) -> bool:
        done = self._answer(agent)
        orders = agent.orders()
        for order in orders:
            key = (agent.name, order.key)
            if isinstance(order, StartProgram):
                self.turns[key] = Turns()
            elif isinstance(order, TellProgram):
                self.turns[key].tell(order.data)
                said, self.turns[key].said = self.turns[key].said, []
                for one in said:
                    call = read_act(one)
                    took_s = self.program_s * len(call.origins) if isinstance(call, EventsMapped) else 0.0
                    self.program_free_at = max(self.program_free_at, self.now) + took_s
                    self.unanswered.append((self.program_free_at, ProgramSaid(order.key, one)))
        return done or bool(orders)

    def _answer(self, agent: Agent) -> bool:
        done = False
        while self.unanswered and self.unanswered[0][0] <= self.now:
            agent.program_host.receive(self.unanswered.pop(0)[1], self.now, self.wall_ms)
            agent.process_events(self.now, self.wall_ms)
            done = True
        return done

    @cached_property
    def unanswered(self) -> list[tuple[float, ProgramSaid]]:
        return []


MAPPED = f"""
    import elf

    class Words(elf.Job):
        reads = {{"page": "string"}}
        query = "SELECT word, COUNT(*) AS n FROM web GROUP BY word {TIMED} ELSE PARTIAL"

        def map(self, event):
            yield {{"word": event["page"]}}
"""


def test_code_gets_as_many_events_as_it_can_map_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = CodedAgent(tmp_path, 1, patch=monkeypatch, costs_s=COSTS_S)
    agent.wait(0.5)
    agent.submit_code(MAPPED)
    agent.submit_all({"few": JOBS["few"]})
    agent.go_on(1.0, per_s=300)
    agent.go_on(8.0)
    agent.go_on(5.0, per_s=300)
    agent.close()
    windows = agent.windows()
    assert [(one.late, one.partial) for one in windows["few"]] == [(0, [])] * len(windows["few"])
    words = windows["words"]
    overloaded = [one for one in words if one.partial]
    assert 7 <= len(overloaded) <= 10
    assert all(one.contributors == 1 for one in words), "it is not leaped over"
    done_s = sum(agent.program_s * one.events for one in overloaded[:-1])
    assert done_s >= 0.85 * len(overloaded[:-1])
    assert [(one.late, one.partial) for one in words[-3:]] == [(0, [])] * 3
    assert sum(one.events + one.late for one in words) == sum(one.events for one in windows["few"])


def test_events_that_nobody_gets_are_not_kept_while_code_is_stuck(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = CodedAgent(tmp_path, 1, patch=monkeypatch, costs_s=COSTS_S)
    agent.wait(0.5)
    key = agent.submit_code(MAPPED)
    agent.submit_all({})
    agent.go_on(1.0, per_s=300)
    agent.program_free_at = agent.now + 60.0
    agent.go_on(8.0)
    job = agent.agents[0].jobs.get(key)
    assert job is not None
    assert isinstance(job.pipeline, MappedPipeline)
    batches = [one for one in job.pipeline._queue if isinstance(one, _Batch)]
    agent.close()
    assert sum(one.late for one in agent.windows()["words"]) >= 5 * PER_S, "windows are out, without them"
    assert sum(one.events.height for one in batches) <= 3 * PER_S, "those of the windows that are not out"


def test_a_version_begins_after_events_that_only_the_code_before_gets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = CodedAgent(tmp_path, 1, patch=monkeypatch, costs_s={})
    agent.wait(0.5)
    key = agent.submit_code(MAPPED)
    agent.submit_all({"few": JOBS["few"]})
    agent.go_on(2.0, per_s=300)
    job, (running, _) = agent.agents[0].jobs.get(key), agent.agents[0].directory.all()
    assert job is not None
    assert isinstance(job.pipeline, MappedPipeline)
    pipeline, send, old = job.pipeline, job.pipeline._send, job.pipeline.functions()[0].code
    pipeline._send = lambda code, *events: code == old and send(code, *events)  # the new program takes a while to start
    source = MAPPED.replace('event["page"]', 'event["page"] * 2')
    bundle = agent.bundle(source, after=(running.counter, running.mandate))[2]
    function = bundle.contents.functions[0]
    update = Update(key, function.plan, function.text, False, 0, bundle)
    with monkeypatch.context() as patch:
        abandon_halves(patch)
        client_of(agent.agents[0]).update(update, agent.now, agent.wall_ms)
        agent.go_on(1.5, per_s=300)
    pipeline._send = send
    agent.go_on(5.0, per_s=300)
    agent.close()
    windows = agent.windows()
    doubled = [one for one in windows["words"] if one.version == 2]
    written = {one.window_start: one.events for one in windows["few"]}
    assert [one.events for one in doubled] == [written[one.window_start] for one in doubled]
    assert len(doubled) >= 3


def abandon_halves(patch: pytest.MonkeyPatch) -> None:
    """Has code get half of the events of each of its calls."""
    take = CodeTurns.take

    def take_half(turns: CodeTurns) -> Lot | None:
        if (lot := take(turns)) is not None and lot.events > 1:
            turns._scheduler._abandoned.append(lot.split_off(lot.events // 2))
        return lot

    patch.setattr(CodeTurns, "take", take_half)
