"""A program that answers what it was not asked is found out: its job ends with the reason."""

from __future__ import annotations

import pytest
from beside import COUNT, Beside, one

from agent.programs import calls
from agent.programs.calls import AnswerError, Emission, PackedColumn


def lying(*emissions: Emission, ticket: int = 1) -> str:
    """What the agent says of a program that answers with these emissions."""
    beside = Beside(COUNT)
    runtime = beside.runtimes["Count"]
    rows = beside.frame("Word", [(1, "to", 1), (2, "be", 2)], "word")
    runtime.process("Word", rows, lambda _: None)
    with pytest.raises(AnswerError) as error:
        runtime.answered(calls.ElementsProcessed(ticket, list(emissions)))
    return str(error.value)


def numbers(*values: int, size: int = 8) -> bytes:
    return b"".join(value.to_bytes(size, "little") for value in values)


GOOD = {"word": PackedColumn("s", texts="a\x1fb"), "n": PackedColumn("q", numbers(1, 2))}


@pytest.mark.parametrize(
    ("emission", "said"),
    [
        (Emission("Word", 2, GOOD), "answered with events of the type Word, which Count does not emit"),
        (Emission("Sum", 3, GOOD), "answered with 3 events of 2 rows, and does not say which"),
        (Emission("Sum", 2, {"n": GOOD["n"]}), "answered with other fields of Sum than it has"),
        (Emission("Sum", 2, {**GOOD, "n": GOOD["word"]}), "answered with values of n that are no integer"),
        (Emission("Sum", 2, {**GOOD, "n": PackedColumn("q", numbers(1))}), "answered with 8 bytes of n for 2 rows"),
        (Emission("Sum", 2, {**GOOD, "word": PackedColumn("s", texts="a")}), "answered with 1 texts of word for"),
        (Emission("Sum", 2, {**GOOD, "n": PackedColumn("l", values=[1])}), "answered with 1 values of n for 2 events"),
        (Emission("Sum", 2, GOOD, numbers(0, 2, size=4)), "answered with events of rows that it was not given"),
        (Emission("Sum", 2, GOOD, numbers(1, 0, size=4)), "answered with events of rows that it was not given"),
        (Emission("Sum", 2, GOOD, numbers(0, size=4)), "answered with 4 bytes of origins for 2 rows"),
        (Emission("Sum", 2, GOOD, times=numbers(0)), "answered with 8 bytes of @time for 2 rows"),
    ],
)  # fmt: skip
def test_what_a_program_cannot_say_is_refused_with_the_reason(emission: Emission, said: str) -> None:
    assert lying(emission).startswith(said)


def test_a_program_says_nothing_of_nodes_that_it_was_not_given() -> None:
    beside = Beside(one("every_s = 1\ndef process_event(self, event): pass\ndef output(self): self.emit(Sum('', 1))"))
    runtime = beside.runtimes["One"]
    runtime.advance(5000, lambda _: None)
    emission = Emission("Sum", 2, GOOD, nodes=numbers(7, 8, size=2), times=numbers(1, 2))
    with pytest.raises(AnswerError, match="logical nodes that it was not given"):
        runtime.answered(calls.ElementsProcessed(1, [emission]))
