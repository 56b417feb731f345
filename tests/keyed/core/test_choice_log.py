"""Choices of workers outlive the process: what is read again goes where it went, and what is safe is forgotten."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kept_choices import KeptChoices

from agent.runtime.keyed.hosting.rows import choice_log
from agent.runtime.keyed.hosting.rows.choice_log import UNCHOSEN, ChoiceLog


def seqs(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


def test_a_new_process_knows_what_was_chosen_and_nothing_else() -> None:
    store = KeptChoices()
    assert ChoiceLog(store).keep(0, -5, seqs(1, 2, 4), seqs(7, 8, 9))
    log = ChoiceLog(store)
    assert log.chosen_before(0, -5, seqs(0, 1, 2, 3, 4, 5)).tolist() == [UNCHOSEN, 7, 8, UNCHOSEN, 9, UNCHOSEN]
    assert log.chosen_before(1, -5, seqs(1)).tolist() == [UNCHOSEN], "another route has choices of its own"
    assert log.chosen_before(0, -6, seqs(1)).tolist() == [UNCHOSEN]


def test_a_block_that_was_not_written_whole_was_not_acted_on() -> None:
    store = KeptChoices()
    log = ChoiceLog(store)
    log.keep(0, -5, seqs(1), seqs(3))
    whole = len(store.data)
    log.keep(0, -5, seqs(2), seqs(4))
    for end in range(whole, len(store.data)):
        cut = KeptChoices()
        cut.data = store.data[:end]
        assert ChoiceLog(cut).chosen_before(0, -5, seqs(1, 2)).tolist() == [3, UNCHOSEN]


def test_what_is_kept_behind_a_block_that_was_not_written_whole_is_found_again() -> None:
    store = KeptChoices()
    log = ChoiceLog(store)
    log.keep(0, -5, seqs(1), seqs(3))
    log.keep(0, -5, seqs(2), seqs(4))
    store.data = store.data[:-1]
    assert ChoiceLog(store).keep(0, -5, seqs(2), seqs(9))
    assert ChoiceLog(store).chosen_before(0, -5, seqs(1, 2)).tolist() == [3, 9]


def test_nothing_is_kept_where_it_would_not_be_found_again() -> None:
    class Torn(KeptChoices):
        def replace(self, data: bytes) -> bool:  # noqa: ARG002
            return False

    store = Torn()
    store.data = b"\1\2\3"
    assert not ChoiceLog(store).keep(0, -5, seqs(2), seqs(9))
    assert store.data == b"\1\2\3"


@given(st.binary(max_size=200))
def test_what_is_no_store_is_no_choice(data: bytes) -> None:
    store = KeptChoices()
    store.data = data
    assert ChoiceLog(store).chosen_before(0, -5, seqs(1)).tolist() == [UNCHOSEN]


def test_a_store_that_takes_nothing_says_so() -> None:
    class Full(KeptChoices):
        def append(self, data: bytes) -> bool:  # noqa: ARG002
            return False

    log = ChoiceLog(Full())
    assert not log.keep(0, -5, seqs(1), seqs(3))
    assert log.chosen_before(0, -5, seqs(1)).tolist() == [UNCHOSEN]


def test_what_is_never_read_again_is_left_out_of_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice_log, "COMPACT_BYTES", 10_000)
    store = KeptChoices()
    log = ChoiceLog(store)
    sizes = []
    for number in range(300):
        log.keep(0, -5, seqs(2 * number, 2 * number + 1), seqs(1, 2))
        log.forget(lambda _channel: 2 * number - 40)  # noqa: B023
        sizes.append(len(store.data))
    assert max(sizes) < 3 * 10_000
    known = ChoiceLog(store).chosen_before(0, -5, seqs(560, 599)).tolist()
    assert known == [1, 2]
