"""Hosts keep what the job's query was given, and by whom, until it is in windows that are out."""

from __future__ import annotations

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from agent.runtime.keyed.elements.runtime import EVENT_TIME, SEQ, SOURCE
from agent.runtime.keyed.hosting.commits.given_rows import GivenRows, Giver
from agent.runtime.keyed.hosting.rows.outgoing import NEVER
from agent.runtime.keyed.hosting.slot import BEGINNING
from agent.runtime.keyed.logical_nodes import NODES

PLACE, NODE, ROUTE = 1, 7, -2_001
ALL = np.ones(NODES, bool)


def rows(first: int, count: int, node: int = NODE) -> pl.DataFrame:
    """Events of one node, whose times are their numbers."""
    numbers = list(range(first, first + count))
    columns = {EVENT_TIME: numbers, SOURCE: [PLACE * NODES + node] * count, SEQ: numbers, "n": numbers}
    return pl.DataFrame(columns, schema=dict.fromkeys(columns, pl.Int64()))


def gives(kept: GivenRows, events: pl.DataFrame) -> None:
    kept.gave(PLACE, events[SOURCE].to_numpy() % NODES, events[SEQ].to_numpy())
    kept.keep("T", events)


def moved(before: GivenRows, to: GivenRows, node: int = NODE) -> None:
    """A node moves from one host to another, with all that is known of it."""
    nodes = np.array([node])
    mine = np.zeros(NODES, bool)
    mine[nodes] = True
    to.begin_stretch()
    for table in before.positions(PLACE, ROUTE, nodes):
        to.inherit_positions(PLACE, table.rows)
    for name, events in before.events(mine):
        to.keep(name, events)
    before.lose(mine)


def numbers_given_to(kept: GivenRows, agent: int, from_ms: int = BEGINNING, before_ms: int = NEVER) -> list[int]:
    found = kept.by_agent(agent, "T", ALL, from_ms, before_ms)
    return [] if found is None else sorted(found[SEQ].to_list())


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 4)), max_size=12))
def test_wherever_a_node_goes_it_is_known_who_was_given_what(stays: list[tuple[int, int]]) -> None:
    """A node stays with one agent after the other, some of them several times, and emits a few events at each."""
    hosts = [GivenRows([PLACE], Giver(agent, 1)) for agent in range(3)]
    truth: dict[int, list[int]] = {agent: [] for agent in range(3)}
    at, number = 0, 0
    for agent, count in stays:
        if agent != at:
            moved(hosts[at], hosts[agent])
            at = agent
        gives(hosts[at], rows(number, count))
        truth[at] += range(number, number + count)
        number += count
    for agent, numbers in truth.items():
        assert numbers_given_to(hosts[at], agent) == numbers


def test_events_of_windows_that_are_out_are_kept_no_longer() -> None:
    kept = GivenRows([PLACE], Giver(5, 1))
    gives(kept, rows(0, 10))
    kept.forget("T", 4)
    assert numbers_given_to(kept, 5) == [4, 5, 6, 7, 8, 9]
    assert numbers_given_to(kept, 5, 6, 8) == [6, 7]
    assert kept.kept_from(ALL) == {"T": 4}
    kept.forget("T", 100)
    assert kept.events(ALL) == []
    assert not kept.lacks(["T"], 100).any()


def test_the_older_half_goes_where_there_is_no_room_and_its_nodes_are_not_told_of() -> None:
    kept = GivenRows([PLACE], Giver(5, 1))
    kept.bytes_max = int(rows(0, 150).estimated_size())
    gives(kept, rows(0, 100))
    gives(kept, rows(100, 100))
    assert numbers_given_to(kept, 5) == list(range(100, 200))
    assert kept.left_out == 100
    assert kept.lacks(["T"], 99).all()
    assert not kept.lacks(["T"], 100).any()
    assert kept.kept_from(ALL) == {"T": 100}


def test_what_is_given_while_nobody_stands_by_is_not_told_of() -> None:
    kept = GivenRows([PLACE], Giver(5, 1))
    kept.pass_over("T", rows(0, 10))
    assert kept.lacks(["T"], 9).all()
    assert not kept.lacks(["T"], 10).any()


def test_givers_of_which_nothing_is_kept_are_forgotten() -> None:
    kept = GivenRows([PLACE], Giver(5, 1))
    for stay in range(40):
        gives(kept, rows(10 * stay, 10))
        kept.begin_stretch()
    assert len(kept.positions(PLACE, ROUTE, np.array([NODE]))) == 40
    kept.forget("T", 395)
    assert len(kept.positions(PLACE, ROUTE, np.array([NODE]))) <= 2
    assert numbers_given_to(kept, 5) == [395, 396, 397, 398, 399]
