"""What agents learn that ask a job for its last windows, by its name."""

from __future__ import annotations

import json

import pytest
from memory_fleet import COUNT, KEY, WALL_MS, Fleet
from test_following_jobs import live, log_until_shown

from agent import Answered, AskRefused
from agent.control import messages as control
from agent.runtime.master.result_log import RESULTS_MAX
from agent.runtime.messages import jobs as messages
from agent.runtime.messages.jobs import Ask
from agent.runtime.requests import asks as questions
from overlay import Id, app_id, group_id


def answer_to(fleet: Fleet, by: int, question: int, key: Id = KEY, windows: int = 1) -> Answered | AskRefused:
    """The one answer, however long it takes."""
    agent = fleet.agents[by]
    agent.ask(question, key, windows, fleet.now)
    fleet.settle()
    answers = [notice for notice in agent.notices() if isinstance(notice, Answered | AskRefused)]
    for _ in range(40):
        if not answers:
            fleet.wait(0.5)
            answers = [notice for notice in agent.notices() if isinstance(notice, Answered | AskRefused)]
    (answer,) = answers
    assert answer.question == question
    return answer


def counts(answer: Answered | AskRefused) -> list[int]:
    assert isinstance(answer, Answered)
    return [json.loads(line)["rows"][0]["n"] for _, line in answer.results]


@pytest.mark.parametrize("by", range(4))
def test_any_agent_learns_the_last_windows(by: int) -> None:
    fleet = live()
    log_until_shown(fleet, 3)
    answer = answer_to(fleet, by, 7, windows=2)
    assert isinstance(answer, Answered)
    assert (answer.name, answer.text, answer.columns) == ("shop", COUNT, ("product", "n"))
    assert [(pane - WALL_MS) // 1000 for pane, _ in answer.results] == [2, 3]
    assert counts(answer) == [4, 4]
    assert counts(answer_to(fleet, by, 8, windows=64)) == [4, 4, 4]


def test_a_job_without_a_window_has_none_to_tell() -> None:
    fleet = live()
    answer = answer_to(fleet, 1, 1)
    assert isinstance(answer, Answered)
    assert answer.results == ()


def test_a_job_that_is_nowhere_is_unknown() -> None:
    fleet = live()
    assert answer_to(fleet, 2, 1, app_id("nothing", b"")) == AskRefused(1, unavailable=False)


def test_who_asks_while_the_job_moves_to_another_master_is_answered_by_that_one() -> None:
    fleet = live()
    log_until_shown(fleet, 2)
    salt = next(str(n) for n in range(1000) if abs(group_id(f"late {n}") - KEY) < 1 << 120)
    newcomer = fleet.add("late", salt)
    fleet.agents[1].ask(1, KEY, 64, fleet.now)
    fleet.settle()
    assert fleet.agents[1].notices() == [], "who is asked is no master yet, but there must be one"
    fleet.wait_long(5.0)
    (answer,) = fleet.agents[1].notices()
    assert counts(answer) == [4, 4]
    assert newcomer.master(KEY)


def test_questions_beyond_the_limit_are_refused_at_once() -> None:
    fleet = live()
    agent = fleet.agents[0]
    for number in range(questions.OPEN_MAX + 1):
        agent.ask(number, KEY, 1, fleet.now)
    refused = [notice for notice in agent.notices() if isinstance(notice, AskRefused)]
    assert refused == [AskRefused(questions.OPEN_MAX, unavailable=True)]


def test_what_is_no_question_is_refused_and_not_answered() -> None:
    fleet = live()
    node = fleet.agents[0].node
    before = sum(agent.refused for agent in fleet.agents)
    for message in (Ask(app_id("other", b""), 1), messages.Stop(KEY)):
        node.request(KEY, messages.CODEC.encode(message), 1.0, fleet.now)
    node.request(KEY, b"junk", 1.0, fleet.now)
    fleet.settle()
    assert sum(agent.refused for agent in fleet.agents) == before + 3
    assert len(fleet.agents[0].jobs()) == 1, "nothing was stopped that way"


def test_clients_and_masters_agree_on_how_much_can_be_asked() -> None:
    assert control.ASKED_WINDOWS_MAX == messages.ASKED_WINDOWS_MAX == RESULTS_MAX
