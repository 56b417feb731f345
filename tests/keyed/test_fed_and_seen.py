"""Events that clients send reach elements over a whole fleet, once; what elements have can be seen from any agent."""

from __future__ import annotations

import json

import msgspec
import pytest
from keyed_jobs import counting, keyed_job
from memory_fleet import Fleet
from recording_client import client_of

from agent import Agent, StreamOptions
from agent.control.messages import Elements, GetElements, Refused
from agent.control.observation.element_view import asked_elements, described_elements
from agent.runtime.keyed.intake.emissions import Taken, channel_of
from agent.runtime.messages.emissions import SentEvents
from agent.runtime.requests.events import ElementsDescribed
from overlay import Id

CHANNEL = channel_of("ann@web-1", "ab" * 16)


def running(size: int, **types: bool) -> tuple[Fleet, Id]:
    fleet = Fleet(size, streams={"words": StreamOptions()})
    job = keyed_job(counting(**types), bounded=False)
    client_of(fleet.agents[0]).submit(job, fleet.now, fleet.wall_ms)
    fleet.settle()
    fleet.wait_long(2.0)
    return fleet, job.app_id


def emit(fleet: Fleet, app_id: Id, agent: Agent, events: list[dict[str, object]], first: int = 0) -> Taken:
    """The answer to a batch that a client has sent to an agent."""
    data = b"\n".join(json.dumps(event).encode() for event in events)
    answers: list[Taken] = []
    batch = SentEvents("Word", first, data)
    agent.emissions.emit(app_id, CHANNEL, batch, lambda taken, _now: answers.append(taken), fleet.now)
    for _ in range(200):
        if answers:
            return answers[0]
        fleet.settle()
        fleet.wait(0.05)
    raise AssertionError("no answer")


def seen(fleet: Fleet, app_id: Id, agent: Agent, request: GetElements) -> Elements | Refused:
    """What an agent tells a client of the elements of the fleet."""
    known = agent.directory.get(app_id)
    answers: list[ElementsDescribed] = []
    agent.discovery.ask_elements(lambda *about: asked_elements(request, known, *about), answers.append, fleet.now)
    for _ in range(100):
        if answers:
            return described_elements(request, answers[0], {app_id: "words"})
        fleet.settle()
        fleet.wait(0.05)
    raise AssertionError("no answer")


def counted(fleet: Fleet) -> dict[str, int]:
    """The words that windows have had so far, with their highest counts."""
    for _ in range(60):
        fleet.catch_up()
        fleet.wait(0.05)
    return {row["word"]: row["total"] for result in fleet.results for row in result.rows}


WORDS: list[dict[str, object]] = [{"word": word, "n": 1} for word in ("said", "the", "said", "and", "said")]


def test_events_of_a_guaranteed_type_count_once_whichever_agent_they_are_sent_to_again() -> None:
    fleet, app_id = running(4)
    assert emit(fleet, app_id, fleet.agents[2], WORDS) == Taken("taken", 5)
    assert emit(fleet, app_id, fleet.agents[2], WORDS) == Taken("taken", 5)
    assert emit(fleet, app_id, fleet.agents[1], WORDS).taken == "taken"
    assert emit(fleet, app_id, fleet.agents[1], [{"word": "the", "n": 4}], first=5) == Taken("taken", 1)
    assert counted(fleet) == {"said": 3, "the": 5, "and": 1}


def test_events_of_another_type_count_once_if_the_same_agent_gets_them_again() -> None:
    fleet, app_id = running(4, guaranteed=False)
    for _ in range(2):
        assert emit(fleet, app_id, fleet.agents[2], WORDS) == Taken("taken", 5)
    assert counted(fleet) == {"said": 3, "the": 1, "and": 1}


def test_an_event_that_is_none_is_refused_with_its_line() -> None:
    fleet, app_id = running(2)
    refused = emit(fleet, app_id, fleet.agents[1], [*WORDS, {"word": "x", "m": 1}], first=100)
    assert refused == Taken("refused", 0, "line 106: Word has no field 'm'; it has word, n")
    assert counted(fleet) == {}


def test_elements_of_all_agents_are_seen_and_the_state_of_one() -> None:
    fleet, app_id = running(4)
    emit(fleet, app_id, fleet.agents[0], WORDS)
    fleet.wait_long(1.0)
    found = seen(fleet, app_id, fleet.agents[3], GetElements("words", ["said"]))
    assert isinstance(found, Elements)
    assert (sum(one.nodes for one in found.elements), sum(one.elements for one in found.elements)) == (3, 3)
    assert sum(one.events for one in found.elements) == 5
    assert {one.element for one in found.elements} == {"Counts"}
    (state,) = found.states
    assert state.agent in {agent.name for agent in fleet.agents}
    assert "said" in msgspec.json.encode(state.state).decode()
    assert state.epoch == 1
    nothing = seen(fleet, app_id, fleet.agents[3], GetElements("words", ["never"]))
    assert nothing == Refused("usage", "words has no element with the key never")
    wrong = seen(fleet, app_id, fleet.agents[3], GetElements("words", ["a", "b"]))
    assert wrong == Refused("usage", "the key of Counts is (word): 1 value, not 2")


def test_of_a_job_without_elements_there_are_none() -> None:
    fleet, app_id = running(2)
    found = seen(fleet, Id(5), fleet.agents[0], GetElements("other"))
    assert isinstance(found, Refused)
    assert found.message.startswith("other has no keyed elements")
    everything = seen(fleet, app_id, fleet.agents[0], GetElements())
    assert isinstance(everything, Elements)
    assert len(everything.elements) == 2


@pytest.mark.parametrize("has_source", [False, True])
@pytest.mark.parametrize("guaranteed", [False, True])
def test_events_of_a_type_that_no_log_brings_are_in_windows_that_close(guaranteed: bool, has_source: bool) -> None:
    graph = counting(guaranteed=guaranteed) | ({} if has_source else {"sources": []})
    fleet = Fleet(4)
    job = keyed_job(graph, "SELECT COUNT(*) AS n, SUM(total) AS s FROM Counted WINDOWING 1 SECOND", bounded=False)
    client_of(fleet.agents[0]).submit(job, fleet.now, fleet.wall_ms)
    fleet.settle()
    fleet.wait_long(2.0)
    assert emit(fleet, job.app_id, fleet.agents[2], WORDS) == Taken("taken", 5)
    fleet.wait_long(4.0)
    shown = [row for result in fleet.results for row in result.rows]
    assert (sum(row["n"] for row in shown), sum(row["s"] or 0 for row in shown)) == (5, 8)
