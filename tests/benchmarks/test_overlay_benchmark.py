"""The overlay's benchmark: a sound oracle, honest verdicts, every figure at a small size, and all of it drawn."""

import random
from functools import partial
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks.overlay import (
    churn,
    heartbeats,
    joins,
    kills,
    large_rings,
    overhead,
    placement,
    scale,
    speed,
    stalls,
    write_chart,
)
from benchmarks.overlay.charts import PANELS
from benchmarks.overlay.lines import at_least, at_most, beside, quantile
from benchmarks.overlay.placement import Way, roots
from benchmarks.overlay.pool import Figure, run_all
from benchmarks.overlay.population import Population
from benchmarks.overlay.publish import merged, section, with_section
from benchmarks.overlay.truth import Ring, depths, wrong_leaf_sets
from benchmarks.report import Comparison
from overlay import Delivered, WeibullSessions, closest

SIZE = 20


@pytest.fixture(scope="module")
def whole() -> list[Comparison]:
    return scale.run(SIZE, (1,), later_joins=2)


def value(lines: list[Comparison], case: str) -> float:
    return next(line.value for line in lines if line.case == case)


@pytest.mark.parametrize("seed", range(5))
def test_the_ring_knows_who_is_closest_and_who_belongs_in_a_leaf_set(seed: int) -> None:
    source = random.Random(seed)
    ids = [source.getrandbits(128) for _ in range(source.randint(2, 40))]
    ring = Ring(ids)
    keys = [source.getrandbits(128) for _ in range(50)]
    assert [ring.closest(key) for key in keys] == [closest(key, ids) for key in keys], f"seed {seed}"
    assert all(len(ring.leaves(one)) == min(16, len(ids) - 1) for one in ids), f"seed {seed}"


def test_a_population_joins_and_its_trees_are_whole() -> None:
    population = Population(seed=2)
    assert population.grow(SIZE) < 10
    assert wrong_leaf_sets(population.live, population.ring) == []
    (key,) = population.plant(1)
    found = depths(key, population.live, population.ring)
    assert found[population.ring.closest(key)] == 0
    assert found.keys() == population.live.keys()
    victim = population.live[population.ring.closest(key)]
    population.kill([victim], is_silent=True)
    assert depths(key, population.live, population.ring) == {}
    assert wrong_leaf_sets(population.live, population.ring) != []


def test_a_population_is_measured_from_its_first_join_to_its_last_repair(whole: list[Comparison]) -> None:
    assert value(whole, f"join from cold through 3 seeds: {SIZE}") < 10
    assert 0.5 < value(whole, f"mean hops: {SIZE}") < 2
    assert 0.5 < value(whole, f"stretch: {SIZE}") < 3
    for way in kills.WAYS:
        times = [value(whole, f"{kills.orphans(way, share)}: {SIZE}") for share in kills.SHARES]
        assert 0 <= times[0] <= times[1] <= times[2] < 30
        assert 0 < value(whole, f"{kills.leaf_sets(way)}: {SIZE}") < 60
    counts = [value(whole, f"{joins.messages(joins.IN_TURN, share)}: {SIZE}") for share in joins.SHARES]
    assert 4 < counts[0] <= counts[1] <= counts[2] < 500


def test_how_repairs_grow_is_told_by_both_ends_of_the_curve() -> None:
    label = kills.orphans(kills.SILENT, "p99")
    (line,) = kills.growth([at_most(f"{label}: {place}", time, "s") for place, time in (("64", 2.0), ("10,000", 4.0))])
    assert (line.value, line.met) == (2.0, False)


def test_routes_under_churn_are_counted_right_once_or_twice() -> None:
    population = Population(seed=3)
    population.grow(SIZE)
    story = churn.Story(population, WeibullSessions(1e9))
    story.run(1.0, with_routes=True)
    assert len(story.sent) == 50
    population.run(1.0)
    assert {(one.deliveries, one.right_deliveries, one.times_applied_twice) for one in story.sent} == {(1, 1, 0)}
    sent, other = (
        story.sent[0],
        next(node for node in population.live.values() if node.peer.node_id != story.sent[0].right),
    )
    event = Delivered(sent.key, bytes(4), other.peer)
    story._note(population.now, other, event)
    assert (sent.deliveries, sent.right_deliveries, sent.times_applied_twice) == (2, 1, 1)
    sent.last_by = -1
    story._note(population.now, population.live[sent.right], event)
    assert (sent.deliveries, sent.right_deliveries, sent.times_applied_twice) == (3, 2, 1)


def test_churn_is_measured() -> None:
    lines = churn.run("Weibull", WeibullSessions(60.0), SIZE, 10.0, 1)
    assert value(lines, f"routes delivered at the right node under churn: Weibull, {SIZE} nodes") > 90
    assert value(lines, f"maintenance under churn: Weibull, {SIZE} nodes") > 0


@pytest.mark.slow  # other figures of the same benchmark are measured by default
def test_stalls_heartbeats_overhead_and_speed_are_measured() -> None:
    assert [line.target for line in stalls.run(8, 40.0, 1)] == [0.0, None]
    beats = heartbeats.run(SIZE, (2, 4), 10, 1)
    assert 0 < value(beats, "tree edges of an agent: 2 trees") < value(beats, "tree edges of an agent: 4 trees")
    assert beats[-1].target == 1.2
    sent = overhead.run((8,), 1)
    idle, often = (value(sent, f"{overhead.sent_bytes(interval)}: 8") for interval in (None, 5.0))
    assert 150 < often - idle < 300
    assert value(speed.run(8, 1), "messages of a node at rest: 8") > 0


def test_near_peers_in_tables_shorten_routes() -> None:
    lines = large_rings.run((300,), 200, 1)
    assert lines[0].case == lines[1].case == f"{large_rings.BUILT_STRETCH}: 300"
    assert lines[1].ratio is not None
    assert lines[1].ratio > 1


def test_two_salts_balance_roots_better_than_chance() -> None:
    plain, salted = (roots(way, 200, 400, random.Random(4)) for way in (Way("plain"), Way("salts", salts=2)))
    assert sum(plain) == sum(salted) == 400
    assert max(salted) < max(plain)


def test_even_ids_leave_gaps_of_like_width() -> None:
    ids = sorted(placement._ids(64, 100, random.Random(5)))
    gaps = [b - a for a, b in pairwise(ids)]
    assert max(gaps) < 9 * min(gaps)


def test_quantiles_of_nothing_are_nothing() -> None:
    assert quantile([], 0.99) == 0.0
    assert quantile([1, 2, 3], 0.5) == 2.0


def fails() -> list[Comparison]:
    raise ValueError("no overlay")


def test_figures_run_in_processes_and_one_that_fails_is_missed() -> None:
    figures = [
        Figure("broken", fails),
        Figure("roots", partial(placement.run, seeds=(1,), agents=50)),
        Figure("more roots", partial(placement.run, seeds=(2,), agents=50), weight=1),
    ]
    lines = run_all(figures)
    assert (lines[0].case, lines[0].met) == ("broken, not measured, ValueError no overlay", False)
    cases = [line.case for line in lines[1:]]
    assert cases[0].endswith("plain")
    assert cases[6] == cases[0]


def test_all_panels_are_drawn_if_there_are_lines(whole: list[Comparison], tmp_path: Path) -> None:
    labels = [label for panel in PANELS for label in panel.labels]
    write_chart(
        [at_most(f"{label}: {place}", 2.0, "x", 3.0) for label in labels for place in "ab"], tmp_path / "all.svg"
    )
    texts = {text.text for text in ElementTree.parse(tmp_path / "all.svg").iter("{http://www.w3.org/2000/svg}text")}
    assert {*labels, *(f"{panel.title}, x" for panel in PANELS), "target"} <= texts
    write_chart(whole, tmp_path / "some.svg")
    titles = {text.text for text in ElementTree.parse(tmp_path / "some.svg").iter("{http://www.w3.org/2000/svg}text")}
    assert f"{PANELS[0].title}, hops" in titles


def test_what_is_measured_again_takes_the_place_of_what_was() -> None:
    hops, rival = at_most("hops: 64", 1.0, "hops"), beside("hops: 64", 1.0, "hops", "Pastry", 2.0)
    time, more = at_most("time: 64", 5.0, "s"), at_most("hops: 256", 3.0, "hops")
    again = at_most("hops: 64", 1.5, "hops")
    assert merged([hops, rival, time], [more, again]) == [again, rival, more, time]


def test_a_page_gets_the_figures_once() -> None:
    text = section([
        at_most("hops: 5,000", 3.25, "hops", 2.9),
        beside("hops: 5,000", 3.25, "hops", "Pastry", 2.73),
        at_most("time: 256", 1.5, "s"),
        at_least("right: Weibull", 99.5, "%", 99.9),
    ])  # fmt: skip
    assert "| by the number of nodes | 256 | 5,000 |\n| --- | --- | --- |\n" in text
    assert "| hops (hops) |  | 3.25 (2.9, **missed**); Pastry: 2.73 |" in text
    assert "| time (s) | 1.5 |  |" in text
    assert "| right (%) | Weibull: 99.5 (99.9, **missed**) |" in text
    page = with_section("# Page\n", text)
    assert page.startswith("# Page\n\n## Measured\n")
    assert with_section(page + "\n## After\n", text) == page + "\n## After\n"
