"""Lives in which everything happens to a job whose trees have owners: key groups move in all modes, the query changes,
agents die, stand still, leave, join and are cut off. No window is left out, comes twice, or mixes versions."""

from __future__ import annotations

import random
import re
from collections import defaultdict

import lives
import pytest
import simulated_fleet
from lives import DEEP, JOB, TREE_ACTS, Act, Life, begin, crash_master, cut, happen, stall_root
from seeds import seeds
from test_hopping_simulated import check_contents, check_windows, followed
from test_owners_simulated import move, move_to_agent

from query import parse_timestamp

SECOND = 1000
RETURN_S = 6.0
"""Who goes away for a while is back after this time at the latest: lives are to be short."""
SPAN_S = 8.0
LONGEST_S = 8.0
SILENCE_MAX_S = 25.0
SIZES = ("8 SECONDS EVERY 2 SECONDS", "6 SECONDS EVERY 3 SECONDS", "4 SECONDS", "2 SECONDS, 8 SECONDS EVERY 4 SECONDS")
"""The windows of queries."""
SHOWN = ("GROUP BY product", "GROUP BY product HAVING n > 3", "GROUP BY product ORDER BY n DESC LIMIT 3")
FAULTS: tuple[Act, ...] = (*TREE_ACTS, crash_master, stall_root)


@pytest.fixture(autouse=True)
def _short_lives_of_many_products(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulated_fleet, "PRODUCTS", "abcdefghijklmnopqrstuvwxyz")
    monkeypatch.setattr(lives, "LAST_RETURN_S", RETURN_S)


def some_query(source: random.Random) -> str:
    """Other products, other groups shown of them, or windows of other lengths."""
    products = source.choice(("", "WHERE product <> 'a' "))
    grouped = f"SELECT product, COUNT(*) AS n FROM web {products}{source.choice(SHOWN)}"
    return f"{grouped} WINDOWING {source.choice(SIZES)}"


def change(life: Life) -> None:
    """The job has another query from now on."""
    text = some_query(life.fleet.random)
    life.note(f"update to {text[36:]}")
    life.fleet.update(JOB, life.follower, text)


def lived(seed: int) -> Life:
    source = random.Random(seed)
    trees = source.choice((1, 2, 2, 3, 4))
    size = source.choice((3, 4, 5)) if seed < 30 or seed % 10 else source.choice((8, DEEP))
    life = begin(seed, size, source.choice((0, 0, 1)), trees=trees, sql=some_query(source))
    faults = [*source.choices(FAULTS, k=1 + seed % 2), *([cut] if seed % 4 == 3 else [])]
    moves = [move_to_agent if trees == 1 or source.random() < 0.2 else move for _ in range(2)]
    happen(life, [*faults, *moves, *[change] * source.choice((1, 1, 2))], SPAN_S)
    life.fleet.run(life.fleet.now + LONGEST_S)
    return life


def sizes_of(text: str) -> list[tuple[int, int]]:
    """The lengths and slides (ms) of a query's windows."""
    found = re.findall(r"(\d+) SECONDS(?: EVERY (\d+) SECONDS)?", text)
    return [(SECOND * int(size), SECOND * int(slide or size)) for size, slide in found]


def check_none_left_out(life: Life) -> None:
    """Who has followed has every window of each version that begins before the next one does, once and in order."""
    versions = {window.version.number: window.version for window in life.fleet.of(JOB)}
    begun: dict[tuple[int, int], list[int]] = defaultdict(list)
    ends = []
    for one in followed(life):
        start, end = (parse_timestamp(one[name]) for name in ("window_start", "window_end"))
        assert start is not None
        assert end is not None
        begun[one["version"], end - start].append(start)
        ends.append(end)
    assert ends == sorted(ends), life.about()
    numbers = sorted(versions)
    for number, following in zip(numbers, [*numbers[1:], None], strict=True):
        for size, slide in sizes_of(versions[number].text):
            starts = begun[number, size]
            first = starts[0] if number == numbers[0] else -(-versions[number].starts // slide) * slide
            until = starts[-1] + 1 if following is None else versions[following].starts
            assert starts == list(range(first, until, slide)), (
                f"{life.about()}: {size} ms of version {number}: {starts}"
            )


def check(life: Life, seed: int) -> None:
    if seed % 4 == 3:
        check_contents(life)
        followed(life)
    else:
        check_windows(life)
        check_none_left_out(life)
    there = {server.name for server in life.fleet.workers() if server.is_up}
    last = life.fleet.of(JOB)[-4:]
    assert there <= frozenset().union(*(window.contributors for window in last)), life.about()
    silence = life.fleet.longest_silence(JOB, life.began_at, life.fleet.now)
    assert silence <= SILENCE_MAX_S, f"{life.about()}: silent for {silence:.1f} s"


QUICK = range(30)
"""Seeds of every run; they call every function, and have every kind of fault."""


@pytest.mark.parametrize("seed", seeds(*QUICK, slow=range(len(QUICK), 330)))
def test_restless_lives_whose_queries_change(seed: int) -> None:
    check(lived(seed), seed)
