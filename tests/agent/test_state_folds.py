"""The folds of one job: blocks that go to its program, what is made of the answers, and what may come between."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import query
from agent.programs.calls import FoldStates, ProgramPosition, StatesFolded, encode, read_call
from agent.runtime.function.job_function import JobFunction
from agent.runtime.function.versions import InForce, Versions
from agent.runtime.job.state_folds import StateFolds, blocks_of
from agent.runtime.messages.versions import Version
from agent.runtime.model.panes import END, FIRST_PANE, Run
from agent.runtime.model.work_budget import OverBudgetError
from elf.job_aggregate import Aggregate
from elf.program.aggregates import FoldedAggregates

CODE = b"code"
PLACE = ProgramPosition(False, "", [], 0, 1)
Event = tuple[int, str, str, int]
"""A pane, a store, a user and an amount."""


class Top(Aggregate):
    def lift(self, user: str, amount: int) -> dict[str, int]:
        return {user: amount}

    def combine(self, one: dict[str, int], other: dict[str, int]) -> dict[str, int]:
        return {user: one.get(user, 0) + other.get(user, 0) for user in {**one, **other}}

    def lower(self, state: dict[str, int]) -> list[tuple[str, int]]:
        return sorted(state.items())


def function_of(text: str = "SELECT store, TOP(user, amount) AS top FROM web GROUP BY store") -> JobFunction:
    parsed = query.with_aggregates(query.parse(f"{text} WINDOWING 1 SECOND"), {"TOP": "string"})
    plan = query.analyze(parsed, {"web": query.Schema({}, open=True)})
    return JobFunction(query.Plan.from_wire(plan.to_wire()), code=CODE)


FUNCTION = function_of()


def state_of(some: list[Event]) -> pl.DataFrame:
    if not some:
        return FUNCTION.empty_state
    panes, stores, users, amounts = zip(*some, strict=True)
    times = [1000 * pane for pane in panes]
    frame = pl.DataFrame({"@time": times, "store": stores, "user": users, "amount": amounts})
    store = FUNCTION.new_store()
    store.insert(FUNCTION.select(FUNCTION.in_range(frame)))
    return FUNCTION.gather([one for one in store.flush() if one is not None])


def results_of(state: pl.DataFrame) -> dict[tuple[int, str], object]:
    windows = FUNCTION.windows(state, state["pane"].unique().to_list())
    shown = ((pane // 1000, row) for pane, rows in windows.items() for row in rows)
    return {(pane, str(row["store"])): json.loads(str(row["top"])) for pane, row in shown}


def expected_of(some: list[Event]) -> dict[tuple[int, str], object]:
    spent: dict[tuple[int, str], Counter[str]] = {}
    for pane, store, user, amount in some:
        spent.setdefault((pane, store), Counter())[user] += amount
    return {group: [list(one) for one in sorted(users.items())] for group, users in spent.items()}


@dataclass
class Program:
    """A job's program: it takes calls, and answers when it is told to."""

    is_there: bool = True
    waiting: list[FoldStates] = field(default_factory=list)
    calls: list[FoldStates] = field(default_factory=list)
    folded: FoldedAggregates = field(default_factory=lambda: FoldedAggregates({"top": Top}))

    def call(self, code: bytes, made: Callable[[ProgramPosition], FoldStates]) -> bool:
        assert code == CODE
        if self.is_there:
            call = read_call(encode(made(PLACE)))
            assert isinstance(call, FoldStates)
            self.waiting.append(call)
            self.calls.append(self.waiting[-1])
        return self.is_there

    def answer_all(self, folds: StateFolds) -> None:
        while self.waiting:
            assert folds.answered(self.folded.answer(self.waiting.pop(0))) is None


def folds_of(program: Program, **limits: int) -> StateFolds:
    folds = StateFolds(**limits)
    folds.call = program.call
    return folds


EVENTS = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from("ab"), st.sampled_from("xyz"), st.integers(1, 9)), max_size=30
)


@given(st.lists(EVENTS, min_size=1, max_size=4), st.integers(2, 12), st.integers(1, 200))
def test_states_folded_anywhere_give_the_results_of_all_events(
    of_agents: list[list[Event]], rows_max: int, bytes_max: int
) -> None:
    """Some agents fold what they send, and the others send it as it is."""
    program = Program()
    folds, at_root = folds_of(program, rows_max=rows_max), folds_of(program, rows_max=rows_max, bytes_max=bytes_max)
    sent: list[pl.DataFrame] = []
    for number, mine in enumerate(of_agents):
        if number % 2:
            folds.fold(None, FUNCTION, state_of(mine), sent.append, finishes=False)
        else:
            sent.append(state_of(mine))
    folds.pump()
    program.answer_all(folds)
    assert len(sent) == len(of_agents)
    made: list[pl.DataFrame] = []
    at_root.fold(None, FUNCTION, FUNCTION.combine(sent), made.append, finishes=True)
    at_root.pump()
    program.answer_all(at_root)
    assert results_of(made[0]) == expected_of([one for mine in of_agents for one in mine])


@given(EVENTS, st.integers(2, 12), st.integers(1, 200))
def test_blocks_are_all_rows_in_order_and_end_between_groups(some: list[Event], rows_max: int, bytes_max: int) -> None:
    assert FUNCTION.store_layout is not None
    (bag,) = FUNCTION.store_layout.bags(state_of(some)).values()
    blocks = list(blocks_of("a0", bag, rows_max=rows_max, bytes_max=bytes_max))
    assert pl.concat([bag.clear(), *(one.rows for one in blocks)]).equals(bag)
    sizes = Counter(bag[":group"].to_list())
    for block in blocks:
        groups = Counter(block.rows[":group"].to_list())
        assert block.rows.height <= rows_max
        assert block.is_whole == all(sizes[group] == rows for group, rows in groups.items())
        assert (
            block.is_whole
            or len(groups) == 1
            or block.rows[":group"][0] in {one.rows[":group"][-1] for one in blocks if one is not block}
        )


def test_values_that_occur_often_are_lifted_once() -> None:
    program = Program()
    folds, made = folds_of(program), list[pl.DataFrame]()
    folds.fold(None, FUNCTION, state_of([(0, "a", "x", 3)] * 1000), made.append, finishes=True)
    folds.pump()
    assert [len(call.texts) for call in program.calls] == [1]
    program.answer_all(folds)
    assert results_of(made[0]) == {(0, "a"): [["x", 3000]]}


def test_a_state_alone_in_its_group_is_not_folded_again() -> None:
    program = Program()
    folds, made = folds_of(program), list[pl.DataFrame]()
    folds.fold(None, FUNCTION, state_of([(0, "a", "x", 3), (0, "a", "y", 4)]), made.append, finishes=False)
    folds.pump()
    program.answer_all(folds)
    folds.fold(None, FUNCTION, made[0], made.append, finishes=False)
    folds.pump()
    assert len(program.calls) == 1
    assert made[1].equals(made[0])


def run_of(some: list[Event], after: int, upto: int) -> Run:
    return Run(after, upto, 1, state_of(some))


def versions_of(*bounds: int) -> list[InForce]:
    """A version up to each of these panes, with functions of their own."""
    return [
        InForce(Version(number, FIRST_PANE, FIRST_PANE, {}, ""), FUNCTION if number == 1 else function_of(), upto)
        for number, upto in enumerate(bounds, 1)
    ]


class Known(list[InForce]):
    """The versions in force, as folds see them."""

    def at(self, pane: int) -> InForce:
        return next(one for one in self if pane <= one.upto)


def known(*bounds: int) -> Versions:
    return Known(versions_of(*bounds))  # type: ignore[return-value]


def test_runs_leave_in_their_order() -> None:
    program = Program()
    folds, left = folds_of(program), list[Run]()
    versions = known(END)
    for second in range(3):
        some: list[Event] = [(second, "a", "x", 1)] if second != 1 else []
        run = run_of(some, 1000 * second - 1, 1000 * second)
        folds.fold_run(None, versions, run, left.append)
    folds.pump()
    assert left == []
    program.answer_all(folds)
    assert [one.upto for one in left] == [0, 1000, 2000]
    folds.fold_run(None, versions, run_of([], 2000, 3000), left.append)
    assert left[-1].upto == 3000, "nothing is before it"


def test_a_run_is_cut_where_another_version_has_begun_meanwhile() -> None:
    program = Program()
    folds, left = folds_of(program), list[Run]()
    versions = known(END)
    folds.fold_run(None, versions, run_of([(1, "a", "x", 1), (2, "a", "x", 1)], 0, 2000), left.append)
    folds.fold_run(None, versions, run_of([(3, "a", "x", 1)], 2000, 3000), left.append)
    folds.pump()
    versions[:] = versions_of(1000, END)  # type: ignore[index]
    program.answer_all(folds)
    assert [(one.after, one.upto, one.state["pane"].unique().to_list()) for one in left] == [(0, 1000, [1000])]


def test_without_a_program_runs_go_as_they_are_and_results_wait() -> None:
    program = Program(is_there=False)
    folds, left, made = folds_of(program), list[Run](), list[pl.DataFrame]()
    run = run_of([(0, "a", "x", 1), (0, "a", "y", 1)], -1, 0)
    folds.fold_run(None, known(END), run, left.append)
    folds.fold(None, FUNCTION, run.state, made.append, finishes=True)
    folds.pump()
    assert [one.state.equals(run.state) for one in left] == [True]
    assert made == []
    program.is_there = True
    folds.pump()
    program.answer_all(folds)
    assert results_of(made[0]) == {(0, "a"): [["x", 1], ["y", 1]]}


def test_what_a_program_has_not_answered_when_it_ends_is_asked_of_the_next() -> None:
    program = Program()
    folds, made = folds_of(program), list[pl.DataFrame]()
    folds.fold(None, FUNCTION, state_of([(0, "a", "x", 1)]), made.append, finishes=True)
    folds.pump()
    program.waiting.clear()
    folds.code_ended(b"another")
    assert len(program.calls) == 1
    folds.code_ended(CODE)
    program.answer_all(folds)
    assert results_of(made[0]) == {(0, "a"): [["x", 1]]}


def test_what_is_dropped_goes_nowhere_and_its_answer_is_no_fault() -> None:
    program = Program()
    folds, made, kept = folds_of(program), list[pl.DataFrame](), list[pl.DataFrame]()
    folds.fold("worker", FUNCTION, state_of([(0, "a", "x", 1)]), made.append, finishes=True)
    folds.fold("master", FUNCTION, state_of([(0, "b", "x", 1)]), kept.append, finishes=True)
    folds.pump()
    folds.drop("worker")
    program.answer_all(folds)
    assert made == []
    assert results_of(kept[0]) == {(0, "b"): [["x", 1]]}


@pytest.mark.parametrize(
    ("groups", "texts"),
    [
        ([0], ['r"x"']),
        ([0, 1], ['r"x"']),
        ([0, 2], ['r"x"', 'r"x"']),
        ([0, 1], ['r"x"', "sAA=="]),
        ([0, 1], ['r"x"', 'v{"0":1}']),
        ([0, 1], ['r"x"', "r" + "9" * (1 << 20)]),
    ],
)
def test_answers_that_cannot_be_are_faults(groups: list[int], texts: list[str | None]) -> None:
    program = Program()
    folds, made = folds_of(program), list[pl.DataFrame]()
    folds.fold(None, FUNCTION, state_of([(0, "a", "x", 1), (0, "b", "x", 1)]), made.append, finishes=True)
    folds.pump()
    numbers = pl.Series(groups, dtype=pl.UInt32).to_numpy().tobytes()
    assert folds.answered(StatesFolded(program.waiting[0].ticket, numbers, texts)) is not None
    assert made == []
    assert folds.answered(StatesFolded(99, b"", [])) is not None


def test_a_pane_with_too_much_in_it_is_refused() -> None:
    folds = folds_of(Program(), bag_bytes_max=100)
    folds.fold(None, FUNCTION, state_of([(0, "a", f"user-{n}", n) for n in range(9)]), lambda _: None, finishes=False)
    with pytest.raises(OverBudgetError, match=r"TOP\(user, amount\) keeps \d+ bytes of values and states in a pane"):
        folds.pump()
