"""A master puts the part of a dead agent together from what all hosts tell, and from nothing else."""

from __future__ import annotations

import polars as pl
import pytest

from agent.runtime.master.lacking_parts import GivenAnswers, told_apart
from agent.runtime.messages.copies import GivenResponse
from agent.runtime.model.epoch import JobEpoch
from agent.runtime.model.panes import Counts, Run
from overlay import Id

APP, OWNER, EPOCH = Id(7), Id(5), JobEpoch(3, 1, Id(1))


class Silent:
    """Sends nothing anywhere."""

    def multicast(self, _group: int, _message: object, _now: float) -> None:
        pass


def told(nodes: int, begun: int = 0, upto: int = 2000, after: int = 0, owner: Id = OWNER) -> GivenResponse:
    return GivenResponse(APP, EPOCH, 1, owner, after, upto, nodes.to_bytes(128, "little"), bytes([begun]), [])


def asked() -> GivenAnswers:
    answers = GivenAnswers(APP, EPOCH, Silent())
    answers.ask([OWNER], 0, 2000, 0.0)
    return answers


def test_all_have_to_answer_and_all_nodes_to_be_told_of() -> None:
    answers = asked()
    assert answers.take(told(0b0011, begun=0b0111), 1, {1, 2}) == []
    found = answers.take(told(0b0100, upto=1000), 2, {1, 2})
    assert [one.upto for one in found] == [2000, 1000]
    assert answers.take(told(0b0100), 2, {1, 2}) == [], "it is put together once"


@pytest.mark.parametrize(
    ("answer", "sender"),
    [
        pytest.param(told(0b1000, begun=0b1_0000), 2, id="a node that nobody tells of"),
        pytest.param(told(0b0001), 2, id="a node that two tell of"),
        pytest.param(told(0b1000), 9, id="a stranger"),
        pytest.param(told(0b1000, after=1000), 2, id="other panes"),
        pytest.param(told(0b1000, upto=3000), 2, id="panes beyond those that were asked for"),
        pytest.param(told(0b1000, upto=0), 2, id="no pane"),
        pytest.param(told(0b1000, owner=Id(6)), 2, id="an agent that was not asked for"),
    ],
)
def test_an_answer_that_does_not_fit_puts_nothing_together(answer: GivenResponse, sender: int) -> None:
    answers = asked()
    assert answers.take(told(0b0001), 1, {1, 2}) == []
    assert answers.take(answer, sender, {1, 2}) == []


def parts(counted: dict[int, Counts], waited_before: int) -> list[tuple[int, int, int]]:
    """The parts of a run of three panes, where time has waited for the agent's logs up to an instant."""
    run = Run(0, 3000, 0b100, pl.DataFrame(), counted)
    found = told_apart(run, counted, 1000, lambda _from_ms, before_ms: before_ms <= waited_before)
    return [(one.after, one.upto, one.partial) for one in found]


def test_panes_that_time_has_passed_without_the_agent_s_logs_are_partial_or_not_there() -> None:
    counted = {1000: Counts(1), 2000: Counts(1)}
    assert parts(counted, 4000) == [(0, 3000, 0)]
    assert parts(counted, 2000) == [(0, 1000, 0), (1000, 2000, 0b100)]
    assert parts({}, 0) == []
