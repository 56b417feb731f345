"""What agents learn that ask a job for its last windows, by its name."""

from __future__ import annotations

import json

import pytest
from memory_fleet import COUNT, KEY, WALL_MS, Fleet
from recording_client import client_of
from test_following_jobs import live, log_until_shown

from agent import AskRefused
from agent.control import messages as control
from agent.runtime.master.results.result_log import RESULTS_MAX
from agent.runtime.messages import jobs as messages
from agent.runtime.messages.jobs import Answer, Ask
from agent.runtime.requests import asks as questions
from overlay import Id, app_id, group_id


def answer_to(fleet: Fleet, by: int, key: Id = KEY, windows: int = 1) -> Answer | AskRefused:
    """The one answer, however long it takes."""
    agent = fleet.agents[by]
    client_of(agent).ask(key, windows, fleet.now)
    fleet.settle()
    answers = [notice for notice in client_of(agent).notices() if isinstance(notice, Answer | AskRefused)]
    for _ in range(40):
        if not answers:
            fleet.wait(0.5)
            answers = [notice for notice in client_of(agent).notices() if isinstance(notice, Answer | AskRefused)]
    (answer,) = answers
    return answer


def counts(answer: Answer | AskRefused) -> list[int]:
    assert isinstance(answer, Answer)
    return [json.loads(line)["rows"][0]["n"] for _, line in answer.results]


@pytest.mark.parametrize("by", range(4))
def test_any_agent_learns_the_last_windows(by: int) -> None:
    fleet = live()
    log_until_shown(fleet, 3)
    answer = answer_to(fleet, by, windows=2)
    assert isinstance(answer, Answer)
    assert (answer.name, answer.text, answer.columns) == ("shop", COUNT, ["product", "n"])
    assert [(pane - WALL_MS) // 1000 for pane, _ in answer.results] == [2, 3]
    assert counts(answer) == [4, 4]
    assert counts(answer_to(fleet, by, windows=64)) == [4, 4, 4]


def test_a_job_without_a_window_has_none_to_tell() -> None:
    fleet = live()
    answer = answer_to(fleet, 1)
    assert isinstance(answer, Answer)
    assert answer.results == []


def test_a_job_that_is_nowhere_is_unknown() -> None:
    fleet = live()
    assert answer_to(fleet, 2, app_id("nothing", b"")) == AskRefused(unavailable=False)


def test_who_asks_while_the_job_moves_to_another_master_is_answered_by_that_one() -> None:
    fleet = live()
    log_until_shown(fleet, 2)
    salt = next(str(n) for n in range(1000) if abs(group_id(f"late {n}") - KEY) < 1 << 120)
    newcomer = fleet.add("late", salt)
    client_of(fleet.agents[1]).ask(KEY, 64, fleet.now)
    fleet.settle()
    assert client_of(fleet.agents[1]).notices() == [], "who is asked is no master yet, but there must be one"
    fleet.wait_long(5.0)
    (answer,) = client_of(fleet.agents[1]).notices()
    assert counts(answer) == [4, 4]
    assert newcomer.masters.state(KEY)


def test_questions_beyond_the_limit_are_refused_at_once() -> None:
    fleet = live()
    agent = fleet.agents[0]
    for _ in range(questions.OPEN_MAX + 1):
        client_of(agent).ask(KEY, 1, fleet.now)
    refused = [notice for notice in client_of(agent).notices() if isinstance(notice, AskRefused)]
    assert refused == [AskRefused(unavailable=True)]


def test_what_is_no_question_is_refused_and_not_answered() -> None:
    fleet = live()
    node = fleet.agents[0].node
    before = sum(agent.refused for agent in fleet.agents)
    for message in (Ask(app_id("other", b""), 1), messages.Stop(KEY)):
        node.request(KEY, messages.CODEC.encode(message), 1.0, fleet.now)
    node.request(KEY, b"junk", 1.0, fleet.now)
    fleet.settle()
    assert sum(agent.refused for agent in fleet.agents) == before + 3
    assert len(fleet.agents[0].directory.all()) == 1, "nothing was stopped that way"


def test_clients_and_masters_agree_on_how_much_can_be_asked() -> None:
    assert control.ASKED_WINDOWS_MAX == messages.ASKED_WINDOWS_MAX == RESULTS_MAX
