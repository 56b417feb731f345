"""What the kernel does with rows of elements is what Python does without it, and what one row after the other gives."""

from __future__ import annotations

import random

import numpy as np
import polars as pl
import pytest

from agent.runtime.keyed.elements import slots
from agent.runtime.keyed.elements.slots import SlotTable
from agent.runtime.keyed.hosting.rows import numbering, positions
from agent.runtime.keyed.hosting.rows.numbering import EVENT_BITS, number_keyed
from agent.runtime.keyed.hosting.rows.positions import Positions
from agent.runtime.keyed.logical_nodes import NODES
from cbt.native.loading import Loaded

SEEDS = range(20)


@pytest.fixture(params=["kernel", "Python"], autouse=True)
def _either(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "Python":
        for module in (slots, numbering, positions):
            monkeypatch.setattr(module, "load", lambda: Loaded(None, "off"))


@pytest.mark.parametrize("seed", SEEDS)
def test_rows_are_new_once_in_each_channel_of_a_node(seed: int) -> None:
    chance = random.Random(seed)
    found, known, changed = Positions(1, 2), dict[tuple[int, int], int](), set[tuple[int, int]]()
    for _ in range(6):
        rows = [
            (chance.randrange(4), chance.choice([-9, -2, 5, NODES + 3]), chance.randrange(30))
            for _ in range(chance.randrange(40))
        ]
        fresh = []
        for place, (node, channel, seq) in enumerate(rows):
            if seq > known.get((node, channel), -1):
                known[node, channel] = seq
                changed.add((node, channel))
                fresh.append(place)
        columns = [np.array([row[column] for row in rows], kind) for column, kind in enumerate(("i2", "i8", "i8"))]
        assert found.fresh(0, *columns).tolist() == fresh, f"seed {seed}"
        if chance.random() < 0.5:
            told = {(node, channel): seq for _, node, channel, seq in found.take_changes().iter_rows()}
            assert told == {key: known[key] for key in changed}, f"seed {seed}"
            changed.clear()
    whole = {(node, channel): seq for _, node, channel, seq in found.of(np.arange(2)).iter_rows()}
    assert whole == {key: seq for key, seq in known.items() if key[0] < 2}, f"seed {seed}"


@pytest.mark.parametrize("seed", SEEDS)
def test_events_are_numbered_by_node_in_their_order(seed: int) -> None:
    chance = random.Random(seed)
    next_seq, last = np.zeros(NODES, np.int64), dict[int, int]()
    for _ in range(3):
        nodes = [chance.choice([0, 7, NODES - 1]) for _ in range(chance.randrange(30))]
        rows = pl.DataFrame({"@time": nodes, "@node": pl.Series(nodes, dtype=pl.UInt16), "n": nodes})
        numbered = number_keyed(3, rows, next_seq)
        assert numbered.columns == ["@time", "@source", "@seq", "n"]
        for node, channel, seq in zip(nodes, numbered["@source"], numbered["@seq"], strict=True):
            assert (channel, seq) == (3 * NODES + node, last.get(node, 0) << EVENT_BITS)
            last[node] = last.get(node, 0) + 1


@pytest.mark.parametrize("seed", SEEDS)
def test_a_key_has_one_slot_however_often_it_comes(seed: int) -> None:
    chance = random.Random(seed)
    table = SlotTable({"word": pl.String(), "n": pl.Int64()}, {}, tracks=False)
    known: dict[tuple[str | None, int | None], int] = {}
    for _ in range(8):
        keys = [
            (chance.choice([None, "", "a", "\0", "x" * 40, f"{chance.randrange(900)}"]), chance.choice([None, 0, -1]))
            for _ in range(chance.choice([0, 1, 50, 700]))
        ]
        words, numbers = [word for word, _ in keys], [n for _, n in keys]
        rows = pl.DataFrame({"word": words, "n": numbers}, schema={"word": pl.String, "n": pl.Int64})
        nodes = pl.Series("@node", [0] * len(keys), dtype=pl.UInt16)
        expected = [known.setdefault(key, len(known)) for key in keys]
        assert table.find(rows.with_columns(nodes)).tolist() == expected, f"seed {seed}"
    assert table.keys().rows() == list(known)
