"""The benchmark of decisions and balance: all ways make the same windows, and what is shipped is counted right."""

from collections import Counter

import numpy as np
import polars as pl
import pytest

from agent.placement import WAYS, Merging, Sending, Way
from benchmarks.enorm.balance import (
    AGENTS,
    GROUPS,
    PANES,
    WINDOW_PANES,
    by_groups,
    by_two_choices,
    entries_shipped,
    moves_until_balanced,
)
from benchmarks.enorm.window_ways import Load, run
from benchmarks.fish.streams import zipf
from cbt.windows import WindowSize

SIZES = {
    "3 and 4": (WindowSize(3, 3), WindowSize(4, 4)),
    "4 every 1": (WindowSize(4, 1),),
    "1, 2 and 6 every 2": (WindowSize(1, 1), WindowSize(2, 2), WindowSize(6, 2)),
}
ROWS, TIMES = 60, 12


def load_of(sizes: tuple[WindowSize, ...], moves: dict[int, list[int]]) -> Load:
    """Two agents, with rows of 30 keys and whole numbers."""
    chance = np.random.default_rng(3)
    return Load(
        sizes,
        [
            {
                pane: pl.DataFrame(
                    {"k": [f"k{one}" for one in chance.integers(0, 30, ROWS)], "n": chance.integers(0, 9, ROWS) * 1.0}
                )
                for pane in range(TIMES)
            }
            for _ in range(2)
        ],
        moves,
    )


def by_brute_force(load: Load) -> dict[tuple[int, WindowSize], tuple[int, int]]:
    """The keys and the rows of each window that is over, and begins with the first pane or later."""
    found = {}
    for size in load.sizes:
        for start in range(0, TIMES - size.size_ms + 1, size.slide_ms):
            rows = pl.concat([agent[pane] for agent in load.agents for pane in range(start, start + size.size_ms)])
            found[start, size] = (rows["k"].n_unique(), rows.height)
    return found


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("way", WAYS, ids=lambda way: ", ".join(one.value for one in way))
def test_all_ways_make_the_windows_of_brute_force_whatever_moves(sizes: tuple[WindowSize, ...], way: Way) -> None:
    load = load_of(sizes, {pane: list(range(pane % 3, GROUPS, 3)) for pane in range(1, TIMES)})
    assert run(load, way).windows == by_brute_force(load)


def test_what_is_moved_is_sent_where_windows_are_made_of_panes_at_owners_alone() -> None:
    load = load_of((WindowSize(4, 1),), {4: list(range(GROUPS))})
    assert run(load, Way()).sums("move")[1] > 0
    assert run(load, Way(merging=Merging.MASTER)).sums("move") == (0, 0, 0)
    assert run(load_of(load.sizes, {}), Way()).sums("move") == (0, 0, 0)


def test_fewer_frames_are_sent_at_edges() -> None:
    load = load_of((WindowSize(3, 3), WindowSize(4, 4)), {})
    each, edges = (run(load, Way(sending=sending)).sums("send")[0] for sending in Sending)
    assert (each, edges) == (12 * 2 * 4, 6 * 2 * 4)


def test_rows_that_are_shipped_are_different_keys_of_agents_by_panes_and_windows() -> None:
    rows = zipf(1.0, 5_000).rows_of_run(0)
    panes = np.linspace(0, PANES, 5_000, endpoint=False).astype(np.int64)
    dealt = by_two_choices(rows, panes)
    found = entries_shipped(rows, panes, dealt.places)
    entries = list(zip(panes.tolist(), rows.keys.tolist(), dealt.places.tolist(), strict=True))
    assert found.panes == len(set(entries))
    assert found.windows == len({(pane // WINDOW_PANES, key, place) for pane, key, place in entries})
    loads = Counter((pane, place) for pane, _, place in entries)
    busiest = sum(max(loads[pane, place] for place in range(AGENTS)) for pane in range(PANES))
    assert found.busiest == pytest.approx(busiest / (5_000 / AGENTS))


def test_two_choices_have_two_agents_for_a_key_and_groups_that_stay_one() -> None:
    rows = zipf(1.4, 20_000).rows_of_run(0)
    panes = np.linspace(0, PANES, 20_000, endpoint=False).astype(np.int64)

    def agents_of_keys(places: np.ndarray) -> Counter[int]:
        return Counter(key for key, _ in set(zip(rows.keys.tolist(), places.tolist(), strict=True)))

    assert max(agents_of_keys(by_two_choices(rows, panes).places).values()) == 2
    stay = by_groups(rows, panes, lambda _: [])
    assert set(agents_of_keys(stay.places).values()) == {1}
    assert stay.moves == 0


def test_both_rules_begin_with_the_same_groups_and_reach_the_same_imbalance() -> None:
    ours, theirs = np.array([moves_until_balanced(AGENTS, order) for order in range(10)]).T
    assert (ours >= 7).all(), "the heaviest group is to be alone: the seven others beside it must go"
    assert (theirs >= ours).all()
