"""A job's own aggregates, tried where they are submitted: what is refused, and with which example."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from elf.signing.submission import JobFileError, read_job

GOOD = """
    import elf

    class Own(elf.Aggregate):
        {body}

    class Shop(elf.Job):
        aggregates = {{"{name}": Own}}
        query = "SELECT OWN(a) AS own FROM web WINDOWING 1 MINUTE"
"""
LIFT, COMBINE = "lift = lambda self, a: a", "combine = lambda self, one, other: max(one, other)"

SUMS = "combine = lambda self, one, other: [one[0] + other[0], one[1] + other[1]]"


def refusal(folder: Path, *body: str, name: str = "own") -> str | None:
    """Why a file with this aggregate is refused, without the file's name; None if it is not."""
    path = folder / "job.py"
    path.write_text(textwrap.dedent(GOOD).format(body="\n    ".join(body), name=name))
    try:
        read_job(path)
    except JobFileError as error:
        return str(error).removeprefix(f"{path}: ")
    return None


def test_an_aggregate_is_described_by_its_name_in_capitals(tmp_path: Path) -> None:
    assert refusal(tmp_path, LIFT, COMBINE, 'gives = "number"', "examples = [(1,), (2,)]") is None
    assert read_job(tmp_path / "job.py").about.aggregates == {"OWN": "number"}


def test_one_without_combine_is_rigid_and_keeps_what_it_likes_of_events(tmp_path: Path) -> None:
    assert refusal(tmp_path, "lift = lambda self, a: object()", "lower = lambda self, some: str(len(some))") is None
    assert read_job(tmp_path / "job.py").about.aggregates == {"OWN": "string:rigid"}


@pytest.mark.parametrize(
    "body",
    [
        (LIFT, COMBINE),
        ("lift = lambda self, a: [a]", "combine = lambda self, one, other: sorted(one + other, key=repr)"),
        ("lift = lambda self, a, b: {a: b}", "combine = lambda self, one, other: {**min(one, other, key=repr)}"),
        ("lift = lambda self, a: a + 0.1", "combine = lambda self, one, other: one + other"),
        ("lift = lambda self, a: a['x']", COMBINE, "examples = [({'x': 1},), ({'x': 2},)]"),
        ("lift = lambda self, *all: len(all)", "combine = lambda self, one, other: one + other"),
        ("def lift(self, a: int, b: 'float'): return [a, b]", SUMS),
        ("lift = lambda self, a, b: [a, b]", SUMS, "examples = [(1, 2), (3, 4)]"),
    ],
)
def test_lawful_aggregates_are_taken(tmp_path: Path, body: tuple[str, ...]) -> None:
    """The rounding of doubles is no fault, and kinds of values that an aggregate does not take are passed over."""
    assert refusal(tmp_path, *body) is None


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (
            (LIFT, "combine = lambda self, one, other: other"),
            "OWN: combine is not commutative: combine(3, 1) is 1, combine(1, 3) is 3; where it is not for such"
            " values, give some as examples: tuples of lift's arguments",
        ),
        (
            ("lift = lambda self, a: a / 1", "combine = lambda self, one, other: (one + other) / 2"),
            "OWN: combine is not associative: combine(combine(3.0, 3.0), 1.0) is 2.0, combine(3.0, combine(3.0, 1.0))"
            " is 2.5",
        ),
        (("lift = lambda self, a, b: [a, b]", SUMS), "combine([3, 'a'], [-2, 'b']) is [1, 'ab']"),
        (
            (LIFT, "combine = lambda self, one, other: 1 / 0"),
            "OWN: combine(3, 3) fails: ZeroDivisionError: division by zero (job.py:6)",
        ),
        (
            (LIFT, COMBINE, "lower = lambda self, state: [][0]"),
            "OWN: lower(3) fails: IndexError: list index out of range",
        ),
        (
            (LIFT, COMBINE, 'gives = "integer"', "lower = lambda self, state: 'many'", "examples = [(1,)]"),
            "OWN: lower gives str, not integer: lower(1)",
        ),
        (
            ("lift = lambda self, a: object()", COMBINE),
            "OWN: its state is not made of plain values: object is none: lift(3)",
        ),
        (
            ("lift = lambda self, a: 'x' * 70_000", COMBINE),
            "OWN: a state of 70,005 bytes; at most 65,536 are taken: lift(3)",
        ),
        (
            ("lift = lambda self, a: a.price", COMBINE),
            "OWN: lift(3) fails: AttributeError: 'int' object has no attribute 'price' (job.py:5); where it is not for"
            " such values, give some as examples: tuples of lift's arguments",
        ),
        (
            (LIFT, "combine = lambda self, one, other: other[:1]", "examples = [('ab',), ('c',)]"),
            "OWN: combine is not commutative: combine('ab', 'c') is 'c', combine('c', 'ab') is 'a'",
        ),
        (
            (LIFT, "lower = lambda self, some: some[1]", "examples = [(1,), (2,)]"),
            "OWN: lower([lift(1)]) fails: IndexError: list index out of range (job.py:6)",
        ),
        (
            (LIFT, 'gives = "integer"', "lower = lambda self, some: some if len(some) > 2 else 1"),
            "OWN: lower gives list, not integer: lower([lift(3), lift(1), lift(-2)])",
        ),
        ((LIFT[:-1] + "1 / a", "examples = [(1,), (0,)]"), "OWN: lift(0) fails: ZeroDivisionError"),
        ((COMBINE,), "Shop.aggregates: own has no lift"),
        ((LIFT, COMBINE, 'gives = "list"'), "Shop.aggregates: own: gives is one of number, integer, string, boolean"),
        ((LIFT, COMBINE, "def __init__(self): raise OSError('no')"), "OWN: it cannot be made: OSError: no"),
    ],
)
def test_others_are_refused_with_the_example_that_shows_it(tmp_path: Path, body: tuple[str, ...], says: str) -> None:
    assert (refused := refusal(tmp_path, *body)) is not None
    assert says in refused


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("sum", "aggregates: SUM is a function of ELF QL already"),
        ("upper", "aggregates: UPPER is a function of ELF QL already"),
        ("a-b", "Shop.aggregates: is to be a dict of at most 16 classes that are an elf.Aggregate by name"),
    ],
)
def test_names_that_cannot_be_called_are_refused(tmp_path: Path, name: str, says: str) -> None:
    assert (refused := refusal(tmp_path, LIFT, COMBINE, name=name)) is not None
    assert says in refused
