# ruff: noqa: ARG005 - functions that are wrong may well leave their arguments unused
"""User-defined functions: what a developer writes works like a built-in, and what is wrong with it is said by name."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pao_states import combine, lift, lift_each, lower, same, subtract

from cbt.aggregates.laws import AlgebraError, check_algebra
from cbt.aggregates.user_defined import (
    ColumnFunction,
    UserDefinedError,
    UserDefinedPao,
    UserFunctions,
    ValueFunction,
    attempt,
)
from cbt.algebra.pao import CountRows, Pao


class GeometricMean(ColumnFunction):
    argument_type, result_type = "number", "number"
    state: Mapping[str, pl.DataType] = {"log": pl.Float64(), "n": pl.Int64()}

    def lift(self, values: pl.Expr) -> Mapping[str, pl.Expr]:
        return {"log": values.log().sum(), "n": values.count()}

    def combine(self, states: Mapping[str, pl.Expr]) -> Mapping[str, pl.Expr]:
        return {part: state.sum() for part, state in states.items()}

    def lower(self, states: Mapping[str, pl.Expr]) -> pl.Expr:
        return (states["log"] / states["n"]).exp()

    def subtract(self, whole: Mapping[str, pl.Expr], part: Mapping[str, pl.Expr]) -> Mapping[str, pl.Expr]:
        return {name: whole[name] - part[name] for name in whole}


class Longest(ColumnFunction):
    argument_type, result_type = "string", "string"
    state: Mapping[str, pl.DataType] = {"text": pl.String()}

    def lift(self, values: pl.Expr) -> Mapping[str, pl.Expr]:
        return {"text": values.sort_by(values.str.len_bytes(), values, descending=True, nulls_last=True).first()}

    def combine(self, states: Mapping[str, pl.Expr]) -> Mapping[str, pl.Expr]:
        return self.lift(states["text"])

    def lower(self, states: Mapping[str, pl.Expr]) -> pl.Expr:
        return states["text"]


class Distinct(ValueFunction):
    argument_type, result_type = "any", "integer"

    def zero(self) -> Any:
        return []

    def add(self, state: Any, value: Any) -> Any:
        key = [type(value).__name__, value]
        return state if key in state else [*state, key]

    def merge(self, left: Any, right: Any) -> Any:
        return left + [item for item in right if item not in left]

    def result(self, state: Any) -> Any:
        return len(state)


def pao(definition: ColumnFunction | ValueFunction) -> UserDefinedPao:
    functions = UserFunctions()
    functions.register("mine", definition)
    return functions.pao("mine", "a")


def changed(definition: type[Any], **members: Any) -> Any:
    """An instance of the class with some members changed; functions come without `self`."""
    static = {name: staticmethod(member) if callable(member) else member for name, member in members.items()}
    return type(definition.__name__, (definition,), static)()


@given(st.lists(st.none() | st.floats(1e-3, 1e3), min_size=1, max_size=30), st.integers(1, 30))
def test_a_column_function_aggregates(values: list[float | None], size: int) -> None:
    mean = pao(GeometricMean())
    blocks = [lift(mean, values[start : start + size]) for start in range(0, len(values), size)]
    logs = [math.log(value) for value in values if value is not None]
    expected = math.exp(math.fsum(logs) / len(logs)) if logs else math.nan
    assert lower(mean, combine(mean, blocks)) == [pytest.approx(expected, rel=1e-12, nan_ok=True)]


def test_integers_doubles_and_nothing_arrive_as_one_type() -> None:
    mean = pao(GeometricMean())
    assert lower(mean, lift_each(mean, [1, 4.0, None])) == [pytest.approx(2.0)]
    assert mean.state == {"a.log": pl.Float64(), "a.n": pl.Int64()}


def test_a_column_function_of_text_and_many_groups() -> None:
    longest = pao(Longest())
    states = lift(longest, ["a", "bb", "ab", None, "c"], pane=[0, 0, 0, 1, 2])
    assert lower(longest, combine(longest, [states, states])) == ["bb", None, "c"]
    assert longest.subtract() is None


def test_a_column_function_may_be_subtracted() -> None:
    mean = pao(GeometricMean())
    part, rest = lift(mean, [2.0, 8.0]), lift(mean, [5.0])
    assert lower(mean, subtract(mean, combine(mean, [part, rest]), part)) == [pytest.approx(5.0)]


@given(st.lists(st.sampled_from([None, True, 1, 1.0, 2.5, "1", "é", ""]), min_size=1, max_size=12), st.integers(1, 4))
def test_a_value_function_aggregates(values: list[Any], parts: int) -> None:
    distinct = pao(Distinct())
    dealt = [lift_each(distinct, values[part::parts]) for part in range(min(parts, len(values)))]
    plain = {(type(v).__name__, v) if v != 1 or type(v) is bool else ("int", 1) for v in values if v is not None}
    plain -= {("float", 1.0)}
    assert lower(distinct, combine(distinct, dealt)) == [len(plain)]


def test_a_value_function_of_many_groups() -> None:
    distinct = pao(Distinct())
    states = lift(distinct, [1, 2, 2, None], pane=[0, 0, 1, 2])
    assert states["a.state"].to_list() == ['[["int",1],["int",2]]', '[["int",2]]', None]
    assert lower(distinct, combine(distinct, [states, states])) == [2, 1, 0]


def test_a_state_is_never_shared() -> None:
    zero: list[Any] = []

    def add(state: list[Any], value: Any) -> list[Any]:
        state.append(["int", value])
        return state

    careless = pao(changed(Distinct, zero=lambda: zero, add=add))
    assert lower(careless, lift(careless, [1, 2, 3], pane=[0, 1, 1])) == [1, 2]
    assert zero == []


@pytest.mark.parametrize(
    ("result_type", "given_", "expected"),
    [
        ("integer", 5, 5),
        ("number", 5, 5.0),
        ("number", math.nan, math.nan),
        ("string", "é", "é"),
        ("boolean", False, False),
        ("any", "a", '"a"'),
        ("any", 1.0, "1"),
        ("any", None, None),
        ("integer", None, None),
    ],
)
def test_results_of_value_functions(result_type: str, given_: Any, expected: Any) -> None:
    constant = pao(changed(Distinct, result_type=result_type, result=lambda state: given_))
    (result,) = lower(constant, lift(constant, [1]))
    assert repr(result) == repr(expected)


def boom(*arguments: Any) -> Any:  # noqa: ARG001
    raise ZeroDivisionError("so it is")


@pytest.mark.parametrize(
    ("definition", "fault"),
    [
        (5, "is int, not a ColumnFunction or a ValueFunction"),
        (changed(GeometricMean, argument_type="text"), "declares the argument_type 'text'; it can be any, number"),
        (changed(GeometricMean, result_type="any"), "declares the result_type 'any'"),
        (changed(GeometricMean, state={}), "declares no state"),
        (changed(GeometricMean, state={"log": pl.Binary()}), "declares the state 'log' as Binary"),
        (changed(GeometricMean, state={"log": pl.Float64()}), "gives log, n in lift, not its state log"),
        (changed(GeometricMean, lift=lambda values: 7), "gives int in lift, not its state log, n"),
        (changed(GeometricMean, lift=lambda values: {"log": 1, "n": 2}), "gives int for 'log' in lift"),
        (changed(GeometricMean, lift=lambda values: {"log": values, "n": values.count()}),
         r"gives List\(Float64\) for 'log' in lift; Float64 was declared"),
        (changed(GeometricMean, lift=lambda values: {"log": values.str.len_bytes().sum(), "n": values.len()}),
         "fails in lift: SchemaError"),
        (changed(GeometricMean, lift=lambda values: {"log": pl.col("other").sum(), "n": values.len()}),
         "fails in lift: ColumnNotFoundError"),
        (changed(GeometricMean, lift=boom), "fails in lift: ZeroDivisionError: so it is"),
        (changed(GeometricMean, combine=boom), "fails in combine: ZeroDivisionError"),
        (changed(GeometricMean, combine=lambda states: {"log": states["log"].sum(), "n": states["n"].mean()}),
         "gives Float64 for 'n' in combine; Int64 was declared"),
        (changed(GeometricMean, lower=boom), "fails in lower: ZeroDivisionError"),
        (changed(GeometricMean, lower=lambda states: states["n"].cast(pl.String)), "gives String in lower"),
        (changed(GeometricMean, lower=lambda states: states["n"].sum()), "gives one result for all states"),
        (changed(GeometricMean, subtract=boom), "fails in subtract: ZeroDivisionError"),
        (changed(GeometricMean, subtract=lambda whole, part: {"n": whole["n"]}), "gives n in subtract"),
        (changed(Distinct, zero=boom), "fails in zero: ZeroDivisionError"),
        (changed(Distinct, zero=lambda: sys.exit()), "fails in zero: SystemExit"),
        (changed(Distinct, zero=lambda: {1, 2}), "gives a state in zero that holds set, which is no JSON"),
        (changed(Distinct, zero=lambda: (1, 2)), "holds tuple"),
        (changed(Distinct, zero=lambda: {1: 2}), "holds keys that are no text"),
        (changed(Distinct, zero=lambda: "x" * 2**16), "has a state of 65538 bytes; 65536 are allowed"),
        (changed(Distinct, result=lambda state: "7"), "gives str as result, not integer"),
        (changed(Distinct, result=lambda state: True), "gives bool as result, not integer"),
        (changed(Distinct, result=lambda state: 2**63), "gives a result beyond 64 bits"),
        (changed(Distinct, result=boom), "fails in result: ZeroDivisionError"),
    ],
)  # fmt: skip
def test_what_is_wrong_from_the_start_is_refused(definition: Any, fault: str) -> None:
    functions = UserFunctions()
    with pytest.raises(UserDefinedError, match=rf"^the function 'mine' .*{fault}"):
        functions.register("mine", definition)
    assert "mine" not in functions


def boom_if_any(texts: pl.Series) -> pl.Series:
    return boom() if len(texts) else texts


def failing_merge(states: Mapping[str, pl.Expr]) -> Mapping[str, pl.Expr]:
    return {"text": states["text"].map_batches(boom_if_any, pl.String, returns_scalar=True)}


def endless() -> list[Any]:
    state: list[Any] = []
    state.append(state)
    return state


@pytest.mark.parametrize(
    ("definition", "fault"),
    [
        (changed(Distinct, add=boom), "fails in add: ZeroDivisionError: so it is"),
        (changed(Distinct, add=lambda state, value: None), "gives None in add: it has to return the state"),
        (changed(Distinct, add=lambda state, value: object()), "gives a state in add that holds object"),
        (changed(Distinct, add=lambda state, value: endless()), "holds more than 64 levels"),
        (changed(Distinct, add=lambda state, value: 10**5000), "fails in add: ValueError"),
        (changed(Distinct, add=lambda state, value: "x" * 2**16), "has a state of 65538 bytes"),
        (changed(Distinct, merge=boom), "fails in merge: ZeroDivisionError"),
        (changed(Distinct, merge=lambda left, right: [float] * 2), "gives a state in merge that holds type"),
        (changed(Distinct, result=lambda state: len(state) // (2 - len(state))), "fails in result: ZeroDivisionError"),
        (changed(Distinct, result_type="string", result=lambda state: "\ud800" * len(state)),
         "fails in result: UnicodeEncodeError"),
        (changed(Longest, lift=lambda values: {"text": values.str.join("-" * 2**16)}),
         "has a state of 65538 bytes; 65536 are allowed"),
        (changed(Longest, combine=lambda states: {"text": states["text"].str.join("-" * 2**16)}),
         "has a state of 65538 bytes"),
        (changed(Longest, lift=lambda values: {"text": values.str.to_integer().sum().cast(pl.String)}),
         "fails in lift: "),
        (changed(Longest, combine=failing_merge),
         "fails in combine: ZeroDivisionError: so it is"),
        (changed(Longest, lower=lambda states: states["text"].str.to_integer().cast(pl.String)), "fails in lower"),
        (changed(Longest, lower=lambda states: states["text"].filter(pl.lit(False))), "gives 0 results in lower"),
    ],
)  # fmt: skip
def test_what_shows_only_with_some_data_names_the_function(definition: Any, fault: str) -> None:
    mine = pao(definition)
    others: list[Pao] = [CountRows("n"), mine, CountRows("m")]
    with pytest.raises(UserDefinedError, match=rf"^the function 'mine' .*{fault}[^\n]*$"):
        lower_all(others)
    lower_all([CountRows("n"), CountRows("m")])


def lower_all(paos: list[Pao]) -> None:
    """Lifts, merges and lowers several aggregates at once, as a layout does."""
    block = pl.DataFrame({"x": ["a", "b"], "key": [0, 0]})
    lifted = {pao: pao.lift(block["x"]) for pao in paos}

    def states(of: Any) -> pl.DataFrame:
        rows, groups, made = ([item for pao in of for item in lifted[pao][part]] for part in range(3))
        return block.with_columns(rows).group_by("key").agg(groups).select("key", *made)

    once = attempt(paos, "lift", states)
    merged = attempt(
        paos,
        "combine",
        lambda of: pl.concat([once, once]).group_by("key").agg(state for pao in of for state in pao.combine()),
    )
    for pao in paos:
        pao.lower(merged)


def test_what_somebody_else_raises_is_left_alone() -> None:
    def work(paos: Any) -> None:
        if len(paos) > 1:
            raise OSError("the disk is full")

    with pytest.raises(OSError, match="disk"):
        attempt([CountRows("n"), pao(Distinct())], "lift", work)


def test_names() -> None:
    functions = UserFunctions(reserved=["SUM"])
    functions.register("Spread", GeometricMean())
    assert "spread" in functions
    assert functions.argument_type("SPREAD") == "number"
    assert same(lift(functions.pao("SPREAD", "a"), [1.0]), lift(pao(GeometricMean()), [1.0]))
    for taken in ("spread", "sum"):
        with pytest.raises(UserDefinedError, match="exists already"):
            functions.register(taken, GeometricMean())
    with pytest.raises(UserDefinedError, match="needs a name of letters"):
        functions.register("two words", GeometricMean())
    with pytest.raises(KeyError):
        functions.pao("other", "a")


@pytest.mark.parametrize(
    ("definition", "values"),
    [(GeometricMean(), [0.5, 2.0, 7.0, None]), (Longest(), ["a", "bb", "", None]), (Distinct(), ["a", "b", "a"])],
)
def test_sound_functions_pass_the_check(definition: Any, values: list[Any]) -> None:
    check_algebra(pao(definition), pl.Series(values))


def concatenated(values: pl.Expr) -> Mapping[str, pl.Expr]:
    return {"text": values.str.join()}


@pytest.mark.parametrize(
    ("definition", "example"),
    [
        (changed(Longest, lift=concatenated, combine=lambda states: concatenated(states["text"])), "'abc"),
        (changed(Distinct, merge=lambda left, right: left), "merged"),
        (changed(Distinct, merge=lambda left, right: [*left, *right]), "merged"),
        (changed(GeometricMean, subtract=lambda whole, part: whole), "added and taken off again"),
        (changed(GeometricMean, combine=lambda states: {p: s.mean() for p, s in states.items()}
                 | {"n": states["n"].max()}), "gives"),
    ],
)  # fmt: skip
def test_the_check_finds_functions_that_depend_on_the_order(definition: Any, example: str) -> None:
    text = definition.argument_type == "string"
    values: Callable[..., pl.Series] = pl.Series
    with pytest.raises(AlgebraError, match=rf"^function 'mine': .*{example}"):
        check_algebra(pao(definition), values(["a", "b", "c", "a"] if text else [1.0, 2.0, 3.0, 1.0]))
