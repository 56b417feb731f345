"""Elements written in Python run in a program beside the agent: what they emit and keep, and how they fail."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from beside import COUNT, TAIL, Beside, ProgramFailedError, one, rows_of

from agent.runtime.keyed.elements import key_numbers
from agent.runtime.keyed.elements.code import compact
from agent.runtime.keyed.elements.runtime import Emitted
from elf.program import elements
from elf.program.code_here import code_here

ALL = list(range(1024))


def test_an_element_counts_its_key_and_emits_at_the_time_of_the_event() -> None:
    beside = Beside(COUNT)
    emitted = beside.process("Count", "Word", [(1, "to", 1), (2, "be", 2), (3, "to", 5)], "word")
    assert rows_of(emitted, "Sum") == [(1, "to", 1), (2, "be", 2), (3, "to", 6)]
    assert beside.runtimes["Count"].elements == 2


def words(rng: random.Random, count: int) -> list[tuple[Any, ...]]:
    texts = ["to", "be", "", "ß", "🙂", "a\x1fb", "or not\nto", "x" * 300]
    return [(at, rng.choice(texts), rng.randint(-5, 2**40)) for at in range(count)]


def state_rows(tables: dict[str, pl.DataFrame]) -> set[tuple[Any, ...]]:
    return {row for table in tables.values() for row in table.rows()}


@pytest.mark.parametrize("seed", range(15))
def test_any_split_of_the_events_has_the_same_outputs_and_states(seed: int) -> None:
    rng = random.Random(seed)
    rows = words(rng, rng.choice([1, 50, 3000]))
    whole, split = Beside(COUNT), Beside(COUNT)
    expected = rows_of(whole.process("Count", "Word", rows, "word"), "Sum")
    emitted: list[Emitted] = []
    start = 0
    while start < len(rows):
        end = start + rng.choice([1, 7, 500, 2000])
        split.runtimes["Count"].process("Word", split.frame("Word", rows[start:end], "word"), emitted.extend)
        if rng.random() < 0.5:
            split.step()
        start = end
    split.settle()
    assert rows_of(emitted, "Sum") == expected, seed
    assert state_rows(split.states("Count", ALL)) == state_rows(whole.states("Count", ALL)), seed


@pytest.mark.parametrize("seed", range(15))
def test_elements_that_move_at_any_point_go_on_as_if_they_had_not(seed: int) -> None:
    rng = random.Random(seed)
    rows = words(rng, 400)
    still, here, there = Beside(COUNT), Beside(COUNT), Beside(COUNT)
    expected, found = [], []
    piled: dict[str, list[pl.DataFrame]] = {}
    of_count = compact(here.graph.elements[0])
    for start in range(0, len(rows), 40):
        some = rows[start : start + 40]
        expected += rows_of(still.process("Count", "Word", some, "word"), "Sum")
        found += rows_of(here.process("Count", "Word", some, "word"), "Sum")
        for name, table in here.changes("Count").items():
            piled.setdefault(name, []).append(table)
        if rng.random() < 0.4:  # a host is lost: the next one has what was committed
            there = Beside(COUNT)
            if rng.random() < 0.5:
                there.runtimes["Count"].put({name: of_count(name, some) for name, some in piled.items()})
            else:
                for name, some in piled.items():
                    for table in some:
                        there.runtimes["Count"].put({name: table})
            here = there
        elif rng.random() < 0.4:  # some logical nodes are handed over
            nodes = rng.sample(ALL, 500)
            tables = here.states("Count", nodes)
            here.runtimes["Count"].drop(nodes)
            here.runtimes["Count"].put(tables)
    assert found == expected, seed
    assert state_rows(here.states("Count", ALL)) == state_rows(still.states("Count", ALL)), seed


STATES = """
n: int = 3
share: float = float("inf")
name: str | None = None
seen: bool = False
last: list[int] = []
by: dict[str, list[float]] = {"a": [1.5]}
some: int | str = 0
def process_event(self, event):
    self.n += 1
    self.share = min(self.share, 0.5 * event.n)
    self.name = event.word
    self.seen = not self.seen
    self.last.append(event.n)
    self.by.setdefault("b", []).append(2)
    self.some = event.word if event.n % 2 else event.n
    self.emit(Sum(repr([self.n, self.share, self.name, self.seen, self.last, self.by, self.some]), 0))
"""


def test_each_kind_of_state_is_an_elements_own_and_moves() -> None:
    here, there = Beside(one(STATES)), Beside(one(STATES))
    rows = [(1, "to", 1), (2, "be", 2), (3, "to", 4)]
    emitted = rows_of(here.process("One", "Word", rows, "word"), "Sum")
    assert [text for _, text, _ in emitted] == [
        "[4, 0.5, 'to', True, [1], {'a': [1.5], 'b': [2]}, 'to']",
        "[4, 1.0, 'be', True, [2], {'a': [1.5], 'b': [2]}, 2]",
        "[5, 0.5, 'to', False, [1, 4], {'a': [1.5], 'b': [2, 2]}, 4]",
    ]
    there.runtimes["One"].put(here.states("One", ALL))
    again = [(4, "to", 3), (5, "be", 0)]
    assert rows_of(there.process("One", "Word", again, "word"), "Sum") == rows_of(
        here.process("One", "Word", again, "word"), "Sum"
    )


def test_what_is_configured_once_is_shared_by_all() -> None:
    body = """
        n: int = 0
        def __init__(self):
            self.known = {"to": 10}
            self.n = 100
        def process_event(self, event):
            self.n += self.known.setdefault(event.word, 1)
            self.emit(Sum(str(self.known), self.n))
    """
    beside = Beside(one("\n".join(line.removeprefix("        ") for line in body.split("\n"))))
    emitted = rows_of(beside.process("One", "Word", [(1, "to", 1), (2, "be", 2)], "word"), "Sum")
    assert emitted == [(1, "{'to': 10}", 110), (2, "{'to': 10, 'be': 1}", 101)]


def test_output_is_called_at_each_boundary_that_an_element_has_lived_to() -> None:
    source = one("""
every_s = 10
n: int = 0
def process_event(self, event): self.n += event.n
def output(self): self.emit(Sum(self.key, self.n))
""")
    beside = Beside(source)
    assert beside.process("One", "Word", [(12_000, "to", 1), (25_000, "be", 2)], "word") == []
    assert beside.advance("One", 19_999) == []
    assert rows_of(beside.advance("One", 35_000), "Sum") == [(19_999, "to", 1), (29_999, "to", 1), (29_999, "be", 2)]
    moved = Beside(source)
    moved.runtimes["One"].put(beside.states("One", ALL))
    assert sorted(rows_of(moved.advance("One", 40_000), "Sum")) == [(39_999, "be", 2), (39_999, "to", 1)]


@pytest.mark.parametrize("is_bounded", [True, False])
def test_output_is_called_once_more_when_no_event_comes_any_more(is_bounded: bool) -> None:
    source = one("""
every_s = 10
n: int = 0
def process_event(self, event): self.n += event.n
def output(self): self.emit(Sum(self.key, self.n))
""")
    beside = Beside(source, is_bounded=is_bounded)
    beside.process("One", "Word", [(12_000, "to", 1)], "word")
    beside.advance("One", 25_000)
    beside.process("One", "Word", [(31_000, "be", 2)], "word")
    assert rows_of(beside.advance("One", 2**62), "Sum") == [(29_999, "to", 1), (39_999, "be", 2)]
    assert beside.advance("One", 2**62) == []


def test_output_is_called_after_so_many_events_of_an_element() -> None:
    source = one("""
every_n = 2
n: int = 0
def process_event(self, event): self.n += event.n
def output(self): self.emit(Sum(self.key, self.n))
""")
    here, there = Beside(source), Beside(source)
    rows = [(1, "to", 1), (2, "be", 2), (3, "to", 4)]
    assert rows_of(here.process("One", "Word", rows, "word"), "Sum") == [(3, "to", 5)]
    there.runtimes["One"].put(here.states("One", ALL))
    assert rows_of(there.process("One", "Word", [(4, "be", 1), (5, "to", 1)], "word"), "Sum") == [(4, "be", 3)]


EACH_SECOND = """
every_s = 1
def process_event(self, event): pass
def output(self): self.emit(Sum(self.key, self.time_ms))
"""


def test_a_leap_of_time_calls_output_for_the_last_boundaries_only() -> None:
    beside = Beside(one(EACH_SECOND))
    beside.process("One", "Word", [(0, "to", 1)], "word")
    boundaries = [boundary for _, _, boundary in rows_of(beside.advance("One", 5_000_000), "Sum")]
    assert boundaries == [1000 * n for n in range(4901, 5001)]


@pytest.mark.parametrize("seed", range(5))
def test_in_bounded_input_output_does_not_depend_on_how_time_goes_on(seed: int) -> None:
    rng = random.Random(seed)
    rows = [(at, rng.choice("abc"), 1) for at in sorted(rng.randint(0, 100_000) for _ in range(60))]
    found = []
    for _ in range(2):
        beside, emitted = Beside(one(EACH_SECOND), is_bounded=True), []
        for row in rows:  # time goes on to the second of each event before it comes, and further now and then
            emitted += rows_of(beside.advance("One", row[0] // 1000 * 1000), "Sum")
            emitted += rows_of(beside.process("One", "Word", [row], "word"), "Sum")
        emitted += rows_of(beside.advance("One", 100_000 + rng.randint(0, 10**6)), "Sum")
        emitted += rows_of(beside.advance("One", 2**62), "Sum")
        found.append(emitted)
    assert found[0] == found[1], seed
    seconds = {(key, at // 1000) for at, key, _ in rows}
    assert {(key, boundary // 1000 - 1) for _, key, boundary in found[0]} >= seconds, seed


def test_many_outputs_take_several_calls_and_are_all_there() -> None:
    beside = Beside(one(EACH_SECOND))
    beside.process("One", "Word", [(0, str(n), 1) for n in range(30_000)], "word")
    done: list[Emitted] = []
    beside.runtimes["One"].advance(9_000, done.extend)
    later: list[Emitted] = []
    beside.runtimes["One"].process("Word", beside.frame("Word", [(9_500, "0", 1)], "word"), later.extend)
    beside.settle()
    assert sum(one.rows.height for one in done) == 9 * 30_000


def test_a_state_begins_anew_after_its_time_to_live_and_is_removed_then() -> None:
    beside = Beside(
        one("ttl_s = 10\nn: int = 0\ndef process_event(self, event):\n    self.n += 1\n    self.emit(Sum('', self.n))")
    )
    rows = [(0, "to", 0), (9_999, "to", 0), (19_999, "to", 0), (15_000, "be", 0)]
    assert [n for _, _, n in rows_of(beside.process("One", "Word", rows, "word"), "Sum")] == [1, 2, 1, 1]
    assert beside.changes("One")["states"].height == 2
    beside.advance("One", 25_000)
    (table,) = beside.changes("One").values()
    assert table.select("@key0", "@gone").rows() == [("be", True)]
    assert (beside.runtimes["One"].elements, beside.runtimes["One"].evicted) == (1, 1)


def test_eviction_takes_the_least_important_then_those_idle_longest() -> None:
    beside = Beside(
        one("n: int = 0\ndef process_event(self, event): self.n = event.n\ndef priority(self): return self.n")
    )
    runtime = beside.runtimes["One"]
    rows = [(100 - n, f"w{n}", n // 50) for n in range(100)]
    beside.process("One", "Word", rows, "word")
    beside.changes("One")
    runtime.evict(runtime.memory_bytes * 3 // 4, 0)
    beside.settle()
    gone = beside.changes("One")["states"].filter(pl.col("@gone"))["@key0"].to_list()
    assert set(gone) == {f"w{n}" for n in range(50) if n >= 50 - len(gone)}
    assert 24 <= len(gone) <= 28
    assert runtime.evict(runtime.memory_bytes, 0) == len(gone)


KEYLESS = """
import random
import elf
@elf.event
class Word:
    word: str
    n: int
@elf.event
class Sum:
    word: str
    n: int
class One(elf.PE):
    keys = {Word: None}
    def process_event(self, event):
        for _ in range(event.n):
            self.emit(Sum(event.word, random.randint(1, 10**9)))
""" + TAIL  # fmt: skip


@pytest.mark.parametrize("seed", range(5))
def test_an_element_without_key_emits_the_same_when_its_input_comes_again(seed: int) -> None:
    rng = random.Random(seed)
    rows = [(at, f"w{at}", rng.randint(0, 3)) for at in range(200)]
    first, again = Beside(KEYLESS), Beside(KEYLESS)
    whole = [one.rows for one in first.process("One", "Word", rows)]
    after = rng.randrange(1, 199)
    rest = [one.rows for one in again.process("One", "Word", rows[after:], at=after)]
    (whole_rows,), (rest_rows,) = whole, rest
    assert whole_rows.columns == ["@time", "@source", "@seq", "word", "n"]
    assert whole_rows.filter(pl.col("@seq") >= after << 20).rows() == rest_rows.rows(), seed


def test_events_may_have_a_time_of_their_own_and_go_on_as_they_came() -> None:
    source = one("""
emits = [Word, Sum]
def process_event(self, event):
    self.emit(Sum("later", event.time_ms, time_ms=event.time_ms + 5))
    self.emit(event)
    self.emit(Sum("now", 0))
""")
    emitted = Beside(source).process("One", "Word", [(1, "to", 1)], "word")
    assert rows_of(emitted, "Sum") == [(6, "later", 1), (1, "now", 0)]
    assert rows_of(emitted, "Word") == [(1, "to", 1)]


def test_a_key_may_be_any_value_of_a_log() -> None:
    source = """
import elf
Seen = elf.source("SELECT user, time FROM web")
@elf.event
class Sum:
    user: object
    n: int
class One(elf.PE):
    keys = {Seen: "user"}
    n: int = 0
    def process_event(self, event):
        self.n += 1
        assert event.user == self.key
        self.emit(Sum(self.key, self.n))
""" + TAIL  # fmt: skip
    fields: dict[str, Any] = {"Seen": [("user", "any")]}
    here, there = Beside(source, fields), Beside(source, fields)
    users = ["1", "true", '"1"', "1", '"a b"', "2.5", "true"]
    emitted = here.process("One", "Seen", [(at, user) for at, user in enumerate(users)], "user")
    assert [row[1:] for row in rows_of(emitted, "Sum")] == [
        ("1", 1), ("true", 1), ('"1"', 1), ("1", 2), ('"a b"', 1), ("2.5", 1), ("true", 2)
    ]  # fmt: skip
    there.runtimes["One"].put(here.states("One", ALL))
    assert [row[1:] for row in rows_of(there.process("One", "Seen", [(9, "1")], "user"), "Sum")] == [("1", 3)]


def test_values_that_do_not_fit_a_field_become_null_and_are_counted() -> None:
    beside = Beside(one("def process_event(self, event): self.emit(Sum(event.n, event.word))"))
    assert rows_of(beside.process("One", "Word", [(1, "to", 7)], "word"), "Sum") == [(1, None, None)]
    assert beside.runtimes["One"].coerced == 2


def test_an_element_writes_to_the_log_of_its_job() -> None:
    beside = Beside(one("def process_event(self, event):\n    self.log(f'saw {event.word}')\n    print(event.n)"))
    beside.process("One", "Word", [(1, "to", 7)], "word")
    assert beside.log == ["saw to", "7"]


FAILURES = (Path(__file__).parent / "failures.txt").read_text().rstrip("\n").split("\n----\n")[1:]


@pytest.mark.parametrize("failure", FAILURES)
def test_an_element_that_fails_is_named_with_its_key(failure: str) -> None:
    body, _, reason = failure.partition("\n>>> ")
    beside = Beside(one(body))
    beside.runtimes["One"].process("Word", beside.frame("Word", [(1, "to", 7)], "word"), lambda _: None)
    beside.runtimes["One"].take_changes(lambda _: None)
    with pytest.raises(ProgramFailedError) as error:
        beside.settle()
    assert str(error.value) == reason


SOME_FAIL = """
n: int = 0
every_s = 1
def process_event(self, event):
    self.n += 1
    self.emit(Sum(event.word, self.n))
    if event.n < 0:
        self.emit(Sum('never', 1 // (event.n + 1)))
def output(self):
    self.emit(Sum('at all', 1 // (self.n - 3)))
"""


def test_an_event_at_which_the_code_raises_is_passed_over_with_what_was_emitted_for_it_and_counted() -> None:
    beside = Beside(one(SOME_FAIL))
    rows = [(at, "to", -1 if at in (0, 5, 6, 2000, 4999) else at) for at in range(5000)]
    emitted = beside.process("One", "Word", rows, "word")
    assert [row[-1] for row in rows_of(emitted, "Sum")] == [at + 1 for at, _, n in rows if n >= 0]
    assert beside.runtimes["One"].failed == 5
    assert beside.log[0].startswith("Traceback")
    assert (
        beside.log[-1]
        == "One of 'to': ZeroDivisionError: integer division or modulo by zero (job.py:20): an event is passed over"
    )
    assert beside.process("One", "Word", [(5001, "be", 1), (5002, "be", 1), (5003, "be", 1)], "word")
    assert (5999, "at all", 0) in rows_of(beside.advance("One", 6000), "Sum")  # that of `to`
    assert beside.runtimes["One"].failed == 6


def test_code_that_raises_again_and_again_ends_the_job_and_says_so() -> None:
    beside = Beside(one("def process_event(self, event): 1 / event.n"))
    rows = [(at, "to", at % 500) for at in range(2_000)]
    beside.process("One", "Word", rows, "word")
    assert beside.runtimes["One"].failed == 4
    assert beside.log[-1] == "One of 'to': ZeroDivisionError: division by zero (job.py:14): an event is passed over"
    with pytest.raises(ProgramFailedError) as error:
        beside.process("One", "Word", [(at, "be", 0) for at in range(1_001)], "word")
    assert (
        str(error.value) == "One of 'be', after 1,000 others in a row: ZeroDivisionError: division by zero (job.py:14)"
    )
    assert [line.split("; ")[1] for line in beside.log if "so far" in line] == [
        f"{n:,} are so far" for n in (10, 100, 1000)
    ]


def test_a_storm_of_events_comes_in_parts_and_in_order() -> None:
    beside = Beside(one("def process_event(self, event):\n    for n in range(event.n): self.emit(Sum('x' * 20, n))"))
    emitted = beside.process("One", "Word", [(at, "to", 3000) for at in range(100)], "word")
    assert [row[2] for row in rows_of(emitted, "Sum")] == [*range(3000)] * 100
    assert [row[0] for row in rows_of(emitted, "Sum")] == [at for at in range(100) for _ in range(3000)]


def test_events_that_lead_to_many_others_come_few_at_a_time() -> None:
    beside = Beside(one("def process_event(self, event):\n    for n in range(event.n): self.emit(Sum('', n))"))
    beside.process("One", "Word", [(0, "to", 10_000)], "word")
    frame = beside.frame("Word", [(at, "to", 1 if at >= 100 else 10_000) for at in range(2_000)], "word")
    emitted: list[Emitted] = []
    beside.runtimes["One"].process("Word", frame, emitted.extend)
    calls_made = 0
    while beside.step():
        calls_made += 1
    assert sum(one.rows.height for one in emitted) == 100 * 10_000 + 1_900
    assert 100 // 14 < calls_made < 40, "13 events of 10,000 others, then all the rest"


def test_few_calls_are_under_way_and_small_batches_go_together() -> None:
    beside = Beside(COUNT)
    done: list[int] = []
    for number in range(100):
        frame = beside.frame("Word", [(number, "to", 1)], "word")
        beside.runtimes["Count"].process("Word", frame, lambda emitted: done.append(emitted[0].rows["n"][0]))
    steps = 0
    while beside.step():
        steps += 1
    assert done == [*range(1, 101)]
    assert steps <= 6


def test_a_storm_of_new_keys_does_not_fill_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elements, "memory_max", lambda: 4_000_000.0)
    beside = Beside(COUNT)
    for start in range(0, 40_000, 8000):
        rows = [(start + n, f"w{start + n}", 1) for n in range(8000)]
        assert len(rows_of(beside.process("Count", "Word", rows, "word"), "Sum")) == 8000
        beside.changes("Count")
    runtime = beside.runtimes["Count"]
    assert runtime.memory_bytes < 5_000_000
    assert runtime.elements + runtime.evicted == 40_000
    assert {f"w{n}" for n in range(32_000, 40_000)} <= set(beside.states("Count", ALL)["states"]["@key0"])


def test_code_that_runs_here_writes_its_lines_too() -> None:
    lines: list[str] = []
    code_here(f"print('hello')\n{COUNT}".encode(), "words", lines.append)
    assert lines == ["hello"]


def test_elements_keep_their_states_when_their_keys_are_numbered_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_numbers, "NUMBERED_MAX", 10)
    beside = Beside(COUNT)
    for turn in range(1, 5):
        rows = [(turn, f"w{n}", 1) for n in range(8)]
        assert [row[2] for row in rows_of(beside.process("Count", "Word", rows, "word"), "Sum")] == [turn] * 8
        rows = [(turn, f"w{turn}-{n}", 1) for n in range(8)]
        assert [row[2] for row in rows_of(beside.process("Count", "Word", rows, "word"), "Sum")] == [1] * 8


@pytest.mark.parametrize("how", ["drop", "evict", "ttl"])
def test_an_element_that_was_removed_begins_anew_with_the_next_event_of_its_key(how: str) -> None:
    beside = Beside(COUNT.replace("    n: int = 0", "    n: int = 0; ttl_s = 60"))
    runtime = beside.runtimes["Count"]
    for at in (1, 2):
        beside.process("Count", "Word", [(at, "to", 1), (at, "be", 1)], "word")
    if how == "drop":
        runtime.drop(ALL)
    elif how == "evict":
        runtime.evict(0, 0)
    else:
        runtime.advance(120_000, lambda _: None)
    beside.settle()
    emitted = beside.process("Count", "Word", [(120_000, "to", 1), (120_001, "be", 5), (120_002, "to", 1)], "word")
    assert [row[1:] for row in rows_of(emitted, "Sum")] == [("to", 1), ("be", 5), ("to", 2)]
