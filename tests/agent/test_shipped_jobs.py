"""The jobs that come with ELF, over agents in memory, held against plain counts of the very lines."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from memory_fleet import WALL_MS
from shop_fleet import ShopFleet

from elf.demo.story import truth
from elf.demo.story.truth import instant

GAMES = [f"{title} {edition}" for title in ("Angry Birds", "Turbo Kart") for edition in ("Season", "Gold", "Arena")]
Make = Callable[[], ShopFleet]
Lines = list[tuple[int, dict[str, Any]]]


@pytest.fixture
def shop_of(tmp_path: Path) -> Iterator[Make]:
    made: list[ShopFleet] = []

    def make() -> ShopFleet:
        made.append(ShopFleet(tmp_path / str(len(made))))
        return made[-1]

    yield make
    for fleet in made:
        fleet.close()


def views(draw: random.Random, count: int = 20) -> Lines:
    """The more often looked at, the further ahead in the list."""
    lines: Lines = []
    for _ in range(count):
        product, store = draw.choice(GAMES[: draw.randint(1, len(GAMES))]), draw.choice(["video_games", "music"])
        lines.append((draw.randrange(4), {"product": product, "store": store, "clicks_count": draw.randrange(4)}))
    return lines


def test_micro_promotion_shows_the_leading_products_where_they_are_clicked(shop_of: Make) -> None:
    fleet, draw = shop_of(), random.Random(1)
    fleet.submit_job("micro_promotion", LEADERS=2)
    fleet.play(31, lambda _: views(draw))
    windows = fleet.windows("micro-promotion")
    assert len(windows) == 6
    begin = 0
    for window in windows:
        end = instant(window.window_end or "")
        batch = [[one for one in events if begin <= one.at_ms < end] for events in fleet.servers]
        counted = truth.clicks(one for events in batch for one in events)
        assert [(row["product"], row["clicks"]) for row in window.rows] == truth.leaders(counted)
        assert window.events == sum(map(len, batch))
        begin = end
    leading = [product for product, _ in truth.leaders(counted)[:2]]
    here = [[product for product in leading if product in truth.clicks(events)] for events in batch]
    assert [values[-1] for values in fleet.shown("micro-promotion")] == [{"discounts": names} for names in here]


# Product bundling.


def wants(product: str, visitor: int, how: str = "likes_count") -> dict[str, Any]:
    return {"product": product, how: 1, "user": {"id": visitor}}


def test_products_that_the_same_visitors_want_are_bundled_until_nobody_does(shop_of: Make) -> None:
    """Three visitors want a and b, three b and c: that is one bundle. Two want d and e, which is not enough."""
    fleet = shop_of()
    fleet.submit_job("product_bundling")
    a, b, c, d, e, _ = GAMES
    pairs = [(a, b)] * 3 + [(b, c)] * 3 + [(d, e)] * 2
    lines = [
        (number % 4, wants(product, number, how))
        for number, pair in enumerate(pairs)
        for product, how in zip(pair, ("likes_count", "buys_count"), strict=True)
    ]
    fleet.play(18, lambda second: lines if second == 6 else [])
    assert [values[-1]["bundles"] for values in fleet.shown("product-bundling")] == [[sorted([a, b, c])]] * 4
    others = [(1, wants(product, 99)) for product in (d, e)]
    fleet.play(34, lambda second: others if second % 10 == 0 else [])
    assert {str(values[-1]["bundles"]) for values in fleet.shown("product-bundling")} == {str([sorted([d, e])])}


def test_bundles_are_those_of_all_edges_though_agents_fold_those_inside(shop_of: Make) -> None:
    """Tastes change: visitors want editions of one title now, of another later, and for a while nothing."""
    fleet, draw = shop_of(), random.Random(2)
    fleet.submit_job("product_bundling")
    games = [[f"{title} {edition}" for edition in range(4)] for title in "ABCDE"]

    def lines(second: int) -> Lines:
        visitors = [] if second % 60 > 45 else [draw.randrange(8) for _ in range(3)]
        return [(one % 4, wants(draw.choice(games[(one + second // 25) % 5]), one)) for one in visitors]

    fleet.play(120, lines)
    shown = fleet.shown("product-bundling")
    assert all(values == shown[0] for values in shown)
    windows = fleet.windows("product-bundling")
    starts = {instant(one.window_start or ""): instant(one.window_end or "") for one in windows}
    known = truth.bundles_by_window(fleet.servers, starts)
    expected = {starts[start]: bundles for start, bundles in known.items()}
    told = {instant(one["as_of"]): set(map(frozenset, one["bundles"])) for one in shown[0]}
    assert told == expected
    assert len({len(bundles) for bundles in expected.values()}) > 2
    kinds = {start: len(edges) for start, edges in truth.edges_by_window(fleet.servers).items() if start in starts}
    assert sum(len(one.rows) for one in windows) < 0.8 * sum(kinds.values())


def test_a_new_master_has_the_bundles(shop_of: Make) -> None:
    fleet = shop_of()
    key = fleet.submit_job("product_bundling")
    a, b = sorted(GAMES[:2])
    lines = [(number, wants(product, number)) for number in range(3) for product in (a, b)]
    fleet.play(22, lambda second: lines if second == 6 else [(3, wants(a, 77))])
    assert fleet.shown("product-bundling")[0][-1]["bundles"] == [[a, b]]
    number = next(number for number, agent in enumerate(fleet.agents) if agent.masters.state(key) is not None)
    fleet.network.remove(fleet.agents.pop(number).node)
    fleet.play(40, lambda second: [(second % 3, wants(product, 88)) for product in (a, b)])
    shown = fleet.shown("product-bundling")[0]
    assert shown, "the next master goes on"
    assert all(one["bundles"] == [[a, b]] for one in shown), (
        "seen once in 30 seconds, which is not enough for a new one"
    )


# Sale prediction.


@pytest.mark.slow
def test_sale_prediction_asks_the_other_two(shop_of: Make) -> None:
    """The product is bought with two others. Two of the three are clicked most for a while, then one of them."""
    fleet = shop_of()
    key = fleet.submit_job("sale_prediction", POPULAR=2)
    fleet.play(6, lambda _: [])
    assert {text for _, text in fleet.log(key)} == {
        "no prediction: there is no job product-bundling in this fleet: elf jobs lists those there are"
    }
    fleet.submit_job("product_bundling")
    fleet.submit_job("micro_promotion")
    a, b, c, d, _, _ = GAMES

    def lines(second: int) -> Lines:
        popular = [a, b] if second < 30 else [c, d]
        looks: Lines = [(n % 4, {"product": product, "clicks_count": 1}) for n, product in enumerate(popular * 3)]
        return looks + [(n, wants((a, b, c)[(second + n) % 3], n)) for n in range(4)]

    fleet.play(60, lines)
    predictions = [one for values in fleet.shown("sale-prediction") for one in values]
    batches = {one.window_end: one for one in fleet.windows("micro-promotion")}
    for one in predictions:
        most_clicked = [row["product"] for row in batches[one["popular_as_of"]].rows[:2]]
        assert one["popular"] == [product for product in most_clicked if product in one["together"]]
        assert one["sells"] == (2 * len(one["popular"]) > len(one["together"]))
    assert [one["together"] for one in predictions[-6:]] == [sorted([a, b, c])] * 6
    said = [text for _, text in fleet.log(key)]
    assert f"{a} will sell: popular are 2 of 3, itself and what goes with it" in said
    assert said[-1] == f"{a} will not sell: popular are 1 of 3, itself and what goes with it"
    for window in fleet.windows("sale-prediction"):
        mine = [one for one in fleet.events() if one.window == instant(window.window_start or "")]
        assert [tuple(row.values()) for row in window.rows] == [truth.deeds(mine, a)]


# Spam campaign.


def sale(draw: random.Random, account: str, place: str, followers: int) -> tuple[int, dict[str, Any]]:
    user = {"name": account, "location": place, "followers": followers}
    return draw.randrange(4), {"sale": True, "user": user}


def test_a_spam_campaign_is_found_by_zooming_in(shop_of: Make) -> None:
    fleet, draw = shop_of(), random.Random(3)
    key = fleet.submit_job("spam_campaign")

    def lines(second: int) -> Lines:
        place = draw.choice(["Ohio", "Oslo", "Lyon"])
        made = [sale(draw, f"@p{draw.randrange(30)}", place, draw.randrange(5, 90)), (0, {"sale": False})]
        if second < 70:
            made += [sale(draw, f"@spam{n}", "Erewhon", n) for n in range(3) if (second + n) % 4]
            made += [sale(draw, "@fan", "Erewhon", 500)] * (second % 3 == 0)
        return made

    fleet.play(150, lines)
    shown = [values[-1]["spam"] for values in fleet.shown("spam-campaign")]
    assert all(set(accounts) == {"@spam0", "@spam1", "@spam2"} for accounts in shown)
    said = [text for _, text in fleet.log(key)]
    steps = [text for text in said if "campaign" not in text]
    assert steps == [
        "suspects: @spam0; on to places",
        "7 sales come from Erewhon; on to Erewhon",
        "it is quiet here; on to query",
    ]
    assert {frozenset(text.removeprefix("a campaign: ").split(", ")) for text in said if text not in steps} == {
        frozenset(["@spam0", "@spam1", "@spam2"])
    }
    queries = ["account", "place", "Erewhon", "account"]
    windows = fleet.windows("spam-campaign")
    assert {window.version for window in windows} == {1, 2, 3, 4}
    for window in windows:
        start = instant(window.window_start or "")
        mine = [one for one in fleet.events() if start <= one.at_ms < start + 3000]
        assert [tuple(row.values()) for row in window.rows] == truth.sales(mine, queries[window.version - 1])


# K-means.


def test_k_means_comes_to_rest_where_lloyds_iteration_does(shop_of: Make) -> None:
    fleet, draw = shop_of(), random.Random(4)
    key = fleet.submit_job("kmeans")

    def somewhere() -> dict[str, Any]:
        return {"longitude": round(draw.uniform(-180, 180), 2), "latitude": round(draw.uniform(-60, 70), 2)}

    fleet.play(21, lambda _: [(draw.randrange(4), {"user": somewhere()}) for _ in range(6)])
    start, runs = [(-15.0, 0.0), (-5.0, 0.0), (5.0, 0.0), (15.0, 0.0)], []
    for second in (5, 10, 15, 20):
        cloud = truth.points(one for one in fleet.events() if one.at_ms < WALL_MS + 500 + second * 1000)
        way = truth.lloyd(cloud, start)
        centres = ", ".join(f"({x:.2f} {y:.2f})" for x, y in way[-1])
        runs.append(f"{len(cloud)} points, {len(way) - 1} steps to {centres}")
    said = [text for _, text in fleet.log(key)]
    assert said == runs
    steps = sum(int(text.split()[2]) + 1 for text in said)
    windows = fleet.windows("kmeans")
    assert len(windows) == steps > 4 * 4
    assert [row["points"] for row in windows[-1].rows] == [row["points"] for row in windows[-2].rows]
    found = [(row["x"] / row["points"], row["y"] / row["points"]) for row in windows[-1].rows]
    assert found == [pytest.approx(centroid, abs=1e-9) for centroid in way[-1]]
