"""Jobs in Python over time: events they map, functions they change, limits they meet, masters that go."""

from __future__ import annotations

import msgspec
import pytest
from program_fleet import FIGURE_7, TEN_LINES, Make, ended, feed
from recording_client import client_of

from agent import Update, Updated, UpdateRefused
from agent.runtime.fleet.authorization import NoCreators
from agent.runtime.ingest.mapped import MappedPipeline
from agent.runtime.messages.jobs import CODEC
from agent.runtime.messages.versions import ActivateVersion

# Code that maps.

WORDS = """
    import elf

    class Words(elf.Job):
        reads = {"product": "string"}
        query = "SELECT word, COUNT(*) AS n, SUM(length) AS letters FROM web GROUP BY word WINDOWING 1 SECOND"

        def map(self, event):
            for word in (event["product"] or "").split():
                if word != "the":
                    yield {"word": word, "length": len(word)}
"""


def test_what_map_makes_of_events_is_counted(fleet_of: Make) -> None:
    fleet = fleet_of()
    fleet.submit_code(WORDS)
    fleet.catch_up()
    feed(fleet, 1.2, "the red the green", "red", None, "the")
    feed(fleet, 8.5, "end")
    fleet.work()
    assert [dict(row) for row in fleet.results[0].rows] == [
        {"word": "green", "n": 3, "letters": 15}, {"word": "red", "n": 6, "letters": 18}
    ]  # fmt: skip
    assert fleet.results[0].contributors == 3


ODD = """
    import datetime
    import elf

    class Odd(elf.Job):
        reads = {"product": "string"}
        query = "SELECT value, COUNT(*) AS n FROM web GROUP BY value ORDER BY n DESC WINDOWING 1 SECOND"

        def map(self, event):
            yield from ({"value": one} for one in (
                {"a": [1]}, {1: 2}, {"b": 1, 2: 3}, [b"x"], [datetime.datetime.now(datetime.UTC)], {"c": {"d": b"y"}},
                [float("nan")], {"e": {None: 1}}, "fine",
            ))
"""


def test_what_json_cannot_hold_is_counted_and_ends_nothing(fleet_of: Make) -> None:
    fleet = fleet_of()
    fleet.submit_code(ODD)
    fleet.catch_up()
    feed(fleet, 1.2, "an event")
    feed(fleet, 8.5, "the end")
    fleet.work()
    first = fleet.results[0]
    counts = {row["value"]: row["n"] for row in first.rows}
    assert counts == {None: 21, '{"a":[1]}': 3, "fine": 3}
    assert (first.coerced, first.contributors) == (21, 3)


def test_what_a_call_of_a_program_raises_ends_its_job_and_no_other(
    fleet_of: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = fleet_of()
    other = fleet.submit_code(TEN_LINES)
    client_of(fleet.agents[0]).follow(fleet.submit_code(WORDS), None, fleet.now)
    fleet.catch_up()

    def fail(*_: object) -> str | None:
        raise ZeroDivisionError("of the agent's own code")

    monkeypatch.setattr(MappedPipeline, "mapped", fail)
    feed(fleet, 1.2, "a")
    monkeypatch.undo()
    feed(fleet, 8.5, "b")
    fleet.work()
    fleet.wait(1.0)
    reason, failure = ended(fleet)
    assert reason == "failed"
    assert "EventsMapped could not be carried out: ZeroDivisionError: of the agent's own code" in failure
    assert "a: 3" in [text for _, text in fleet.log(other)]


# PAOs on their way up.

RECEIVING = """
    import elf

    class Receiving(elf.Job):
        query = "SELECT product, COUNT(*) AS n FROM web GROUP BY product ORDER BY n DESC LIMIT 1 WINDOWING 1 SECOND"

        def on_recv(self, node, paos):
            assert node in self.children
            self.log(f"{sorted((row['product'], row['n']) for row in paos.rows())}")
"""


def test_code_sees_what_children_send(fleet_of: Make) -> None:
    fleet = fleet_of()
    key = fleet.submit_code(RECEIVING)
    fleet.catch_up()
    feed(fleet, 1.2, "a", "b", "a")
    feed(fleet, 8.5, "b")
    fleet.work()
    said = [text for _, text in fleet.log(key)]
    assert said == ["[('a', 2), ('b', 1)]"] * 2
    assert [dict(row) for row in fleet.results[0].rows] == [{"product": "a", "n": 6}]


# Functions changed in flight.

ZOOMING = """
    import elf

    class Zooming(elf.Job):
        query = "SELECT product, COUNT(*) AS n FROM web GROUP BY product WINDOWING 1 SECOND"
        queries = {"apples": "SELECT COUNT(*) AS n FROM web WHERE product = 'a' WINDOWING 1 SECOND"}

        def on_result(self, window):
            self.log(f"{window.version}: {len(window.rows)}")
            if window.version == 1:
                self.update("apples")
"""


def test_a_master_changes_to_another_of_its_jobs_queries(fleet_of: Make) -> None:
    fleet = fleet_of()
    key = fleet.submit_code(ZOOMING)
    fleet.catch_up()
    for second in range(1, 30, 2):
        feed(fleet, second + 0.2, "a", "b", "c")
        fleet.wait(0.3)
        fleet.work()
    said = [text for _, text in fleet.log(key)]
    assert said[0] == "1: 3"
    assert said[-1] == "2: 1"
    assert said == sorted(said)
    for result in fleet.results:
        assert [row["n"] for row in result.rows] == ([3, 3, 3] if result.version == 1 else [3])


def test_an_update_that_is_refused_is_told_in_the_log(fleet_of: Make) -> None:
    fleet = fleet_of()
    other = ZOOMING.replace("COUNT(*) AS n FROM web WHERE product = 'a'", "COUNT(*) AS n FROM other")
    key = fleet.submit_code(other)
    fleet.catch_up()
    feed(fleet, 1.2, "a")
    feed(fleet, 8.5, "a")
    fleet.work()
    fleet.wait_long(1.0)
    said = [text for _, text in fleet.log(key)]
    assert "update: an update keeps the job's stream, web: to read other, submit another job" in said
    assert fleet.agents[0].directory.all()[0].version == 1


def test_code_is_updated_by_its_creator_and_stays_where_it_cannot_be_loaded(fleet_of: Make) -> None:
    fleet = fleet_of()
    key = fleet.submit_code(TEN_LINES)
    first = fleet.bundle(TEN_LINES)[2]
    running = fleet.agents[1].directory.all()[0]
    fleet.notices(0)

    def update(source: str) -> Updated | UpdateRefused:
        running = fleet.agents[1].directory.all()[0]
        bundle = fleet.bundle(source, after=(running.counter, running.mandate))[2]
        function = bundle.contents.functions[0]
        client_of(fleet.agents[0]).update(
            Update(key, function.plan, function.text, False, 0, bundle), fleet.now, fleet.wall_ms
        )
        fleet.settle()
        fleet.wait_long(2.0)
        (answer,) = [one for one in fleet.notices(0) if isinstance(one, Updated | UpdateRefused)]
        return answer

    broken = TEN_LINES.replace("def on_result", "def __init__(self):\n            1 / 0\n\n        def on_result")
    refused = update(broken)
    assert isinstance(refused, UpdateRefused)
    assert "cannot run it: ZeroDivisionError: division by zero (job.py:8)" in refused.reason
    assert len(fleet.turns) == 3
    answered = update(TEN_LINES.replace("""{row['product']}: {row['n']}""", "second {row['n']}"))
    assert isinstance(answered, Updated)
    assert (answered.version, answered.agents, answered.expected) == (3, 3, 3)  # 2 was withdrawn
    fleet.catch_up()
    feed(fleet, 8.2, "a")
    feed(fleet, 18.5, "b")
    fleet.work()
    assert [text for _, text in fleet.log(key)] == ["second 3"]
    assert (running.counter, first.seal.counter) == (1, 1)
    again = fleet.bundle(TEN_LINES, after=(1, running.mandate))[2]
    client_of(fleet.agents[0]).update(
        Update(key, again.contents.functions[0].plan, "", False, 0, again), fleet.now, fleet.wall_ms
    )
    fleet.settle()
    (late,) = [one for one in fleet.notices(0) if isinstance(one, UpdateRefused)]
    assert "it has been updated since" in late.reason


# Limits.

FLOODING = """
    from dataclasses import dataclass
    import elf

    @elf.message
    @dataclass(frozen=True)
    class Noise:
        number: int

    class Flooding(elf.Job):
        query = "SELECT COUNT(*) AS n FROM web WINDOWING 1 SECOND"
        timer_s = 5.0
        heard = 0

        def on_timer(self):
            for number in range(1000 if self.is_root else 0):
                self.multicast(Noise(number))
                self.log("noise")
                self.show(number)
            if not self.is_root:
                self.log(f"heard {self.heard}")

        def on_multicast(self, app, message):
            self.heard += 1
"""


def test_a_version_that_the_creator_has_not_signed_is_put_in_force_by_nobody(fleet_of: Make) -> None:
    fleet = fleet_of()
    key = fleet.submit_code(TEN_LINES)
    known = fleet.agents[2].jobs.get(key)
    assert known is not None
    assert known.versions is not None
    (first,) = known.versions.all()
    assert first.bundle is not None
    second = msgspec.structs.replace(first, number=2, after=7, starts=8)
    other = msgspec.structs.replace(first.bundle.contents, source=b"import os")
    for forged in (None, msgspec.structs.replace(first.bundle, contents=other)):
        message = ActivateVersion(key, known.epoch, [first, msgspec.structs.replace(second, bundle=forged)])
        fleet.agents[2].node.multicast(key, CODEC.encode(message), fleet.now)
        fleet.settle()
    jobs = [agent.jobs.get(key) for agent in fleet.agents]
    assert [job.version for job in jobs if job is not None] == [1] * 3
    assert [len(job.programs) for job in jobs if job is not None] == [1] * 3


def test_a_master_that_multicasts_without_end_is_held_to_its_limit(fleet_of: Make) -> None:
    fleet = fleet_of()
    key = fleet.submit_code(FLOODING)
    fleet.wait_long(11.0)
    said = [text for _, text in fleet.log(key)]
    assert {"heard 200"} <= {text for text in said if text.startswith("heard")}
    assert "multicast: more than 100 a second; some are dropped" in said
    assert len([text for text in said if text == "noise"]) <= 1000
    assert any(text.startswith("(") and text.endswith("lines more than may be said)") for text in said)
    assert [agent.directory.all()[0].app_id for agent in fleet.agents] == [key] * 3


def test_a_message_that_is_too_large_is_refused_where_it_is_sent(fleet_of: Make) -> None:
    fleet = fleet_of()
    key = fleet.submit_code(
        FLOODING.replace("number: int", "number: str").replace("Noise(number)", "Noise('x' * 70000)")
    )
    client_of(fleet.agents[0]).follow(key, None, fleet.now)
    fleet.wait_long(7.0)
    assert "Noise has 70,013 bytes, a message may have 65,536" in ended(fleet)[1]


@pytest.mark.parametrize("number", range(7))
def test_an_agent_that_does_not_trust_the_creator_is_missing_and_no_other(fleet_of: Make, number: int) -> None:
    """Wherever in the tree it is: what others send by way of it goes on."""
    fleet = fleet_of(7)
    fleet.agents[number].code.creators = NoCreators()
    key = fleet.submit_code(TEN_LINES)
    if not fleet.agents[0].directory.all():
        assert fleet.agents[number].node.is_root(key), "only the master's word counts"
        return
    fleet.catch_up()
    for second in (1.2, 8.5, 20.5):
        feed(fleet, second, "a")
        fleet.work()
        fleet.wait_long(4.0)
    last = fleet.results[-1]
    assert (last.contributors, last.expected, last.missing) == (6, 7, [f"agent-{number}"])
    assert (f"agent-{number}", "this agent cannot run the job: this agent trusts no creators") in fleet.log(key)
    assert fleet.agents[0].directory.all()[0].agents == 6


# Masters that change.


def test_code_goes_on_at_the_next_master(fleet_of: Make) -> None:
    fleet = fleet_of(4)
    key = fleet.submit_code(FIGURE_7)
    feed(fleet, 0.5, "a", "b", "b")
    fleet.wait_long(2.5)
    assert len(fleet.results) == 1
    number = next(n for n, agent in enumerate(fleet.agents) if agent.masters.state(key) is not None)
    gone = fleet.agents.pop(number)
    fleet.network.remove(gone.node)
    fleet.wait_long(25.0)
    feed(fleet, 27.8, "c")
    fleet.wait_long(5.0)
    before = len(fleet.results)
    assert before > 1
    assert sum(agent.masters.state(key) is not None for agent in fleet.agents) == 1
    assert max(result.epoch for result in fleet.results) == 2
    counted = [row["clicks"] for result in fleet.results for row in result.rows if row["product"] == "c"]
    assert counted == [3]
