"""Windows that are open when a job is updated: they end on the query that they began with, to the last event."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from memory_fleet import KEY, WALL_MS, Fleet
from seeds import seeds
from test_updating_jobs import answers, live, log, start_of, update

from agent import Updated, UpdateRefused, WindowResult
from agent.runtime.master.rollout import FULL
from agent.runtime.messages.versions import VERSIONS_MAX
from query.model.timestamps import parse_timestamp

HOPPING = "WINDOWING 8 SECONDS EVERY 2 SECONDS"
SHAPES = {
    HOPPING: ((8, 2),),
    "WINDOWING 5 SECONDS EVERY 2 SECONDS": ((5, 2),),
    "WINDOWING 9 SECONDS EVERY 3 SECONDS": ((9, 3),),
    "WINDOWING 12 SECONDS EVERY 4 SECONDS": ((12, 4),),
    "WINDOWING 2 SECONDS, 6 SECONDS": ((2, 2), (6, 6)),
    "WINDOWING 1 SECOND": ((1, 1),),
    "WINDOWING 5 SECONDS": ((5, 5),),
}
FILTERS = {"": "abcd", "WHERE product <> 'a'": "bcd", "WHERE product = 'a'": "a"}
SECONDS = 45
CARRIED_S = 5
"""The longest pane: what older versions have open comes with panes of the version in force."""


def text_of(shape: str, shown: str = "", trees: int = 1) -> str:
    text = f"SELECT product, COUNT(*) AS n FROM web {shown} GROUP BY product {shape}"
    return text if trees == 1 else f"{text} TREES {trees}"


def products_in(second: int) -> str:
    """What each agent logs in a second."""
    return "".join(product * (1 + (second * number) % 3) for number, product in enumerate("abcd", 1))


def write(fleet: Fleet, first: int, last: int) -> None:
    for second in range(first, last):
        log(fleet, second + 0.3, *products_in(second))
        fleet.work()


def bounds(result: WindowResult) -> tuple[int, int]:
    """The window's start and end in seconds after the first instant."""
    end = parse_timestamp(result.window_end or "")
    assert end is not None
    return (start_of(result) - WALL_MS) // 1000, (end - WALL_MS) // 1000


def expected_rows(start: int, end: int, products: str, agents: int) -> dict[str, int]:
    counted = Counter("".join(products_in(second) for second in range(start, end)))
    return {product: n * agents for product, n in counted.items() if product in products}


def check(fleet: Fleet, versions: dict[int, tuple[str, str, int]], *, first: int) -> None:
    """Each version, as shape, products and start, has every window that begins before the next one does, in full."""
    results = [one for one in fleet.results if bounds(one)[0] >= first]
    for number, (shape, products, starts) in versions.items():
        mine = [one for one in results if one.version == number]
        until = min((start for later, (_, _, start) in versions.items() if later > number), default=SECONDS)
        for size, slide in SHAPES[shape]:
            found = [bounds(one)[0] for one in mine if bounds(one)[1] - bounds(one)[0] == size]
            begun = (WALL_MS // 1000 + max(starts, first) + slide - 1) // slide * slide - WALL_MS // 1000
            over = [start for start in range(begun, until, slide) if start + size < SECONDS - CARRIED_S - 2]
            assert found[: len(over)] == over, (number, size)
            assert all(start < until for start in found), (number, size)
        for one in mine:
            start, end = bounds(one)
            rows = {row["product"]: row["n"] for row in one.rows}
            assert rows == expected_rows(start, end, products, len(fleet.agents)), (number, start, end)
            assert (one.contributors, one.partial, one.missing) == (len(fleet.agents), [], []), (number, start, end)
            assert one.events == sum(expected_rows(start, end, "abcd", len(fleet.agents)).values())
    ends = [bounds(one)[1] for one in results]
    assert ends == sorted(ends)


def starts_of(fleet: Fleet) -> list[int]:
    return [(one.starts - WALL_MS) // 1000 for one in answers(fleet) if isinstance(one, Updated) and not one.refusal]


def lived(seed: int, trees: int, updates: int) -> None:
    source = random.Random(seed)
    shapes, filters = source.choices(list(SHAPES), k=updates + 1), source.choices(list(FILTERS), k=updates + 1)
    shapes[0] = source.choice(list(SHAPES)[:5])
    fleet = live(3, text_of(shapes[0], filters[0], trees))
    at = sorted(source.sample(range(14, 24), updates))
    write(fleet, 1, at[0])
    for number, until in enumerate([*at[1:], SECONDS], 1):
        update(fleet, text_of(shapes[number], filters[number]))
        write(fleet, at[number - 1], until)
    begun = [one for one in answers(fleet) if isinstance(one, Updated)]
    versions = {1: (shapes[0], FILTERS[filters[0]], 0)}
    for number, answer in enumerate(begun, 1):
        if answer.version not in versions:
            versions[answer.version] = (shapes[number], FILTERS[filters[number]], (answer.starts - WALL_MS) // 1000)
    assert not any(one.leaves_out for one in begun)
    check(fleet, versions, first=2)


@pytest.mark.parametrize("seed", seeds(*range(3), slow=range(3, 8)))
@pytest.mark.parametrize(("trees", "updates"), [(1, 1), (1, 3), (3, 1)])
def test_each_window_is_whole_and_of_the_version_it_began_with(seed: int, trees: int, updates: int) -> None:
    lived(seed, trees, updates)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 160))
def test_many_updates(seed: int) -> None:
    lived(seed, 1 + seed % 3, 1 + seed % 4)


def test_a_reset_drops_open_windows() -> None:
    fleet = live(3, text_of(HOPPING))
    write(fleet, 1, 15)
    update(fleet, text_of(HOPPING, "WHERE product = 'a'"), reset=True)
    write(fleet, 15, SECONDS)
    (starts,) = starts_of(fleet)
    old = [bounds(one) for one in fleet.results if one.version == 1]
    assert all(end <= starts for _, end in old)
    assert min(bounds(one)[0] for one in fleet.results if one.version == 2) == starts


def test_what_cannot_go_on_is_left_out_and_the_answer_says_so() -> None:
    fleet = live(3, text_of(f"{HOPPING} EMIT CHANGES"))
    write(fleet, 1, 15)
    update(fleet, text_of(HOPPING))
    write(fleet, 15, SECONDS)
    fleet.wait_long(4.0)
    (answer,) = answers(fleet)
    assert isinstance(answer, Updated)
    assert answer.leaves_out
    starts = (answer.starts - WALL_MS) // 1000
    finals = [bounds(one) for one in fleet.results if one.version == 1 and one.final]
    assert max(end for _, end in finals) <= starts


def test_the_next_master_says_what_an_update_leaves_out_whose_answer_was_lost() -> None:
    fleet = live(3, text_of(f"{HOPPING} EMIT CHANGES"))
    write(fleet, 1, 15)
    update(fleet, text_of(HOPPING))
    agent = next(agent for agent in fleet.agents if agent.masters.get(KEY) is not None)
    state = agent.masters.state(KEY)
    assert state is not None
    agent.masters.outdo(KEY, state.epoch, fleet.now)
    fleet.wait_long(6.0)
    update(fleet, text_of(HOPPING))  # as the requester does when it has heard nothing
    fleet.wait_long(6.0)
    first, again = answers(fleet)
    assert isinstance(first, Updated)
    assert isinstance(again, Updated)
    assert (again.version, again.starts, again.leaves_out) == (first.version, first.starts, True)


def test_only_so_many_versions_go_on_side_by_side() -> None:
    fleet = live(3, text_of("WINDOWING 60 SECONDS EVERY 1 SECOND"))
    for second in range(1, 12):
        write(fleet, second * 3, second * 3 + 3)
        update(fleet, text_of("WINDOWING 60 SECONDS EVERY 1 SECOND", f"WHERE product <> '{second}'"))
        fleet.wait(2.0)
    told = answers(fleet)
    begun = [one.version for one in told if isinstance(one, Updated)]
    assert begun == list(range(2, VERSIONS_MAX + 1))
    refused = [one for one in told if isinstance(one, UpdateRefused)]
    assert refused == [UpdateRefused(KEY, FULL, "usage")] * (11 - len(begun))


def test_an_agent_that_joins_while_old_windows_go_on_is_in_both() -> None:
    """It counts for the old version what it has, and is named as partial."""
    fleet = live(3, text_of(HOPPING))
    write(fleet, 1, 15)
    update(fleet, text_of(HOPPING, "WHERE product = 'a'"))
    fleet.add("agent-late")
    fleet.wait_long(1.0)
    write(fleet, 15, SECONDS)
    (starts,) = starts_of(fleet)
    old = [one for one in fleet.results if one.version == 1 and bounds(one)[1] > starts + 4]
    assert old
    for one in old:
        assert (one.contributors, one.partial) == (4, ["agent-late"]), bounds(one)
        three = expected_rows(*bounds(one), "abcd", 3)
        four = expected_rows(*bounds(one), "abcd", 4)
        rows = {row["product"]: row["n"] for row in one.rows}
        assert all(three[product] < rows[product] < four[product] for product in "abcd"), bounds(one)
    assert fleet.results[-1].contributors == 4
