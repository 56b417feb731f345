"""Jobs written in Python, over agents in memory: what their callbacks see, and what comes of what they do."""

from __future__ import annotations

import msgspec
import pytest
from program_fleet import FIGURE_7, TEN_LINES, Make, Person, ended, feed
from recording_client import client_of

from agent import StopAnswer, Submit, SubmitRefused, Update, UpdateRefused
from agent.runtime.fleet.job_names import AmbiguousNameError
from agent.runtime.messages.jobs import CODEC
from agent.runtime.messages.programs import CannotRun, Line, LogLines, ProgramFailed
from elf.signing.creator import stop_order


def test_the_master_of_a_job_gets_its_windows(fleet_of: Make) -> None:
    fleet = fleet_of()
    key = fleet.submit_code(TEN_LINES)
    fleet.catch_up()
    feed(fleet, 1.2, "a", "b", "a")
    feed(fleet, 8.5, "b")
    fleet.work()
    assert fleet.results[0].rows[0] == {"product": "a", "n": 6}
    assert [text for _, text in fleet.log(key)] == ["a: 6", "b: 3"]


def test_figure_7_line_for_line(fleet_of: Make) -> None:
    fleet = fleet_of()
    key = fleet.submit_code(FIGURE_7)
    feed(fleet, 0.5, "a", "b", "b", "c", "c", "c")
    fleet.wait_long(2.5)
    assert [[(row["product"], row["clicks"]) for row in one.rows] for one in fleet.results] == [[("c", 9), ("b", 6)]]
    feed(fleet, 2.7, "b", "d")
    fleet.wait_long(2.0)
    assert [(row["product"], row["clicks"]) for row in fleet.results[1].rows] == [("b", 3), ("d", 3)]
    assert fleet.results[1].contributors == 3
    said = fleet.log(key)
    assert sorted(said) == sorted((f"agent-{n}", f"discount on {p}") for n in range(3) for p in ("b", "c"))


def test_a_job_of_somebody_who_is_not_trusted_does_not_start(fleet_of: Make) -> None:
    fleet = fleet_of()
    stranger = Person(fleet_of().authority, "mallory")
    fleet.submit_code(TEN_LINES, by=stranger)
    (refused,) = fleet.notices(0)
    assert isinstance(refused, SubmitRefused)
    assert "authority" in refused.reason


# Code that fails.


FAILING = """
    import elf

    class Failing(elf.Job):
        query = "SELECT product, COUNT(*) AS n FROM web GROUP BY product WINDOWING 1 SECOND"

        def on_result(self, window):
            {body}
"""


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("raise ValueError('no such price')", "ValueError: no such price (job.py:8)"),
        ("self.multicast('words')", "MessageError: str is no message: decorate a frozen dataclass with @elf.message"),
        ("self.route('counts', Unknown())", "NameError: name 'Unknown' is not defined (job.py:8)"),
        ("raise SystemExit(3)", "SystemExit: 3 (job.py:8)"),
        ("self.cbt.insert({'product': object()})", "JobError: this cannot be sent to the agent: "),
        ("self.ask('counts', windows=65)", "JobError: this cannot be sent to the agent: Expected `int` <= 64"),
        ("self.ask('counts', deadline_s=61)", "JobError: this cannot be sent to the agent: Expected `float` <= 60.0"),
        ("self.cbt.insert({7: 'a'})", "JobError: this cannot be sent to the agent: Expected `str`, got `int`"),
    ],
)
def test_what_a_callback_raises_ends_the_job_and_no_other(fleet_of: Make, body: str, said: str) -> None:
    fleet = fleet_of()
    good = fleet.submit("SELECT COUNT(*) AS n FROM web WINDOWING 1 SECOND", "good", bounded=False)
    key = fleet.submit_code(FAILING.format(body=body))
    client_of(fleet.agents[0]).follow(key, None, fleet.now)
    fleet.catch_up()
    feed(fleet, 1.2, "a")
    feed(fleet, 8.5, "b")
    fleet.work()
    fleet.wait(1.0)
    reason, failure = ended(fleet)
    assert reason == "failed"
    assert failure.startswith("its code has failed on agent-")
    assert said in failure
    log = "\n".join(text for _, text in fleet.log(key))
    assert "Traceback" in log
    assert said.partition(" (job")[0] in log
    assert [job.app_id for agent in fleet.agents for job in agent.directory.all()] == [good] * 3
    assert not fleet.turns


def test_a_process_that_dies_ends_the_job(fleet_of: Make) -> None:
    fleet = fleet_of()
    key = fleet.submit_code(TEN_LINES)
    client_of(fleet.agents[0]).follow(key, None, fleet.now)
    fleet.settle()
    fleet.kill_program(1, "was killed by signal 11 (segmentation fault)")
    fleet.wait(1.0)
    reason, failure = ended(fleet)
    assert (reason, failure) == (
        "failed", "its code has failed on agent-1: its process was killed by signal 11 (segmentation fault)"
    )  # fmt: skip


def test_code_that_cannot_be_loaded_ends_the_job(fleet_of: Make) -> None:
    """It loads where it is submitted, not beside the agents."""
    fleet = fleet_of()
    source = TEN_LINES.replace(
        "def on_result", "def __init__(self):\n            open('/etc/nothing')\n\n        def on_result"
    )
    key = fleet.submit_code(source)
    client_of(fleet.agents[0]).follow(key, None, fleet.now)
    fleet.wait(1.0)
    assert ended(fleet)[0] == "failed"
    assert "FileNotFoundError" in "\n".join(text for _, text in fleet.log(key))


# Whose job it is.


def test_a_bundle_that_was_changed_after_it_was_signed_is_refused(fleet_of: Make) -> None:
    fleet = fleet_of()
    _, _, bundle = fleet.bundle(TEN_LINES)
    contents = msgspec.structs.replace(bundle.contents, source=bundle.contents.source + b"\n")
    fleet.submit_code(TEN_LINES, bundle=msgspec.structs.replace(bundle, contents=contents))
    (refused,) = fleet.notices(0)
    assert isinstance(refused, SubmitRefused)
    assert "not the creator's signature" in refused.reason


def test_nobody_starts_a_job_under_the_id_of_a_creators(fleet_of: Make) -> None:
    fleet = fleet_of()
    _, key, bundle = fleet.bundle(TEN_LINES)
    first = bundle.contents.functions[0]
    job = Submit(key, "counts", "web", first.plan, first.text, bounded=False)
    client_of(fleet.agents[0]).submit(job, fleet.now, fleet.wall_ms)
    fleet.settle()
    (refused,) = fleet.notices(0)
    assert isinstance(refused, SubmitRefused)
    assert "creator's signature" in refused.reason


def test_two_creators_have_two_jobs_of_one_name(fleet_of: Make) -> None:
    fleet = fleet_of()
    john = Person(fleet.authority, "john")
    mine, his = fleet.submit_code(TEN_LINES), fleet.submit_code(TEN_LINES, by=john)
    assert mine != his
    agent = fleet.agents[1]
    assert (agent.directory.app_of("counts@maria"), agent.directory.app_of("counts@john")) == (mine, his)
    with pytest.raises(AmbiguousNameError, match="more than one job is named counts: say counts@john or counts@maria"):
        agent.directory.app_of("counts")


def test_only_its_creator_stops_and_updates_a_job(fleet_of: Make) -> None:
    fleet = fleet_of()
    key = fleet.submit_code(TEN_LINES)
    fleet.notices(0)
    _, stop = stop_order(Person(fleet.authority, "john"), "counts", fleet.wall_ms)  # type: ignore[arg-type]
    for seal in (None, stop):
        client_of(fleet.agents[0]).stop(key, fleet.now, seal)
        fleet.settle()
        (answer,) = fleet.notices(0)
        assert isinstance(answer, StopAnswer)
        assert answer.found
        assert answer.refusal is not None
    first = fleet.bundle(TEN_LINES)[2].contents.functions[0]
    client_of(fleet.agents[0]).update(Update(key, first.plan, first.text, False, 0), fleet.now, fleet.wall_ms)
    fleet.settle()
    (refused,) = fleet.notices(0)
    assert isinstance(refused, UpdateRefused)
    assert "creator's signature" in refused.reason
    _, seal = stop_order(fleet.maria, "counts", fleet.wall_ms)  # type: ignore[arg-type]
    client_of(fleet.agents[0]).stop(key, fleet.now, seal)
    fleet.settle()
    assert fleet.notices(0) == [StopAnswer(key, True, None)]
    assert not fleet.turns


def test_who_has_no_part_in_a_job_neither_ends_it_nor_writes_its_log(fleet_of: Make) -> None:
    fleet = fleet_of(5, bystanders=2)
    key = fleet.submit_code(TEN_LINES)
    (master,) = [agent for agent in fleet.agents if agent.masters.state(key) is not None]
    epoch = next(part.epoch for part in master.jobs)
    assert epoch is not None
    stranger = next(agent for agent in fleet.agents[3:] if agent is not master)
    for message in (
        ProgramFailed(key, epoch, "agent-3", "because", "I say so"),
        LogLines(key, epoch, [Line(0, "agent-3", "lies")]),
        CannotRun(key, epoch, "agent-0", 0, 0, "no"),
    ):
        refused = master.refused
        stranger.node.send(master.node.peer, CODEC.encode(message), fleet.now)
        fleet.settle()
        assert master.refused == refused + 1
    assert fleet.log(key) == []
    assert len(fleet.agents[0].directory.all()) == 1
