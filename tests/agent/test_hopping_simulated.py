"""Windows of several panes in fleets whose agents crash, come back, stand still, leave and join, and whose master
changes: each equals what the logs of those in it say, no number is wrong, and none is left out.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from lives import ACTS, JOB, QUIET_S, Act, Life, begin_some, crash_master, cut, happen, leave
from seeds import seeds
from simulated_fleet import PRODUCTS, Window, key_of
from test_remembering_simulated import begin as begin_remembering

from agent import PublishedWindow
from query import format_timestamp

SECOND = 1000
LONGEST_S = 8.0
HOPPING = "SELECT product, COUNT(*) AS n FROM web GROUP BY product WINDOWING 8 SECONDS EVERY 2 SECONDS"
SIZES = "SELECT product, COUNT(*) AS n FROM web GROUP BY product WINDOWING 2 SECONDS, 8 SECONDS EVERY 4 SECONDS"
CHANGES = "SELECT product, COUNT(*) AS n FROM web GROUP BY product WINDOWING 6 SECONDS EMIT CHANGES"


def lived(seed: int, acts: Sequence[Act], count: int = 3, *, sql: str = HOPPING, trees: int = 1) -> Life:
    source = random.Random(seed)
    life = begin_some(seed, source, trees=trees, sql=sql)
    happen(life, source.choices(acts, k=count) if acts else [])
    life.fleet.run(life.fleet.now + LONGEST_S)
    return life


def _span_ms(window: Window) -> int:
    start, end = (_seconds(text) for text in (window.result.window_start, window.result.window_end))
    return SECOND * (end - start)


def _seconds(text: str | None) -> int:
    assert text is not None
    hours, minutes, seconds = map(int, re.findall(r"\d\d", text[11:19]))
    return 3600 * hours + 60 * minutes + seconds


def check_contents(life: Life) -> None:
    """Who is whole is counted to the last event; who is partial in some panes, and named; who is missing not at all."""
    for window in life.fleet.of(JOB):
        about, size_ms = f"{life.about()}: {window}", _span_ms(window)
        sums = [Counter[str](), Counter[str]()]
        for name in window.contributors:
            counted = life.fleet.servers[name].counted(window.pane, size_ms)
            sums[1] += counted
            sums[0] += Counter() if name in window.partial or not window.result.final else counted
        low, high = sums
        rows = {row["product"]: row["n"] for row in window.result.rows}
        sure, possible = (shown_of(window, counted) for counted in sums)
        if (limit := limit_of(window)) is not None:
            assert list(rows) == sorted(rows, key=lambda product: (-rows[product], product))[:limit], about
            first = set(sorted(sure, key=lambda product: (-low[product], product))[:limit])
            sure, possible = (first, first) if low == high else (set(), possible)
        assert sure <= rows.keys() <= possible, about
        assert all(low[product] <= n <= high[product] for product, n in rows.items()), about
        assert low.total() <= window.result.events <= high.total(), about
        assert set(window.result.missing) == window.expected - window.contributors, about


def limit_of(window: Window) -> int | None:
    """The number of rows that the window's version shows at most, those of the most events first."""
    found = re.search(r"LIMIT (\d+)", window.version.text)
    return None if found is None else int(found[1])


def shown_of(window: Window, counted: Counter[str]) -> set[str]:
    """The products that the window's version shows of those that are counted."""
    text = window.version.text
    least = 4 if "HAVING" in text else 1
    return {product for product, n in counted.items() if n >= least and not ("<> 'a'" in text and product == "a")}


def check_windows(life: Life) -> None:
    """The same, and no window twice."""
    check_contents(life)
    finals = [(one.epoch[:1], one.pane, _span_ms(one)) for one in life.fleet.of(JOB) if one.result.final]
    assert len(finals) == len(set(finals)), f"{life.about()}: published twice"


def followed(life: Life) -> list[dict[str, Any]]:
    """What the follower was shown: every result once, in order."""
    notices = [one for one in life.follower.followed[key_of(JOB)] if isinstance(one, PublishedWindow)]
    positions = [one.pane for one in notices]
    assert positions == sorted(set(positions)), life.about()
    return [json.loads(bytes(one.result)) for one in notices]


def check_followed(life: Life, *sizes: tuple[int, int]) -> None:
    """Of each size and slide (seconds), who has followed all the time has every window once and none is left out."""
    results = [one for one in followed(life) if one.get("final", True)]
    bounds = [(_seconds(one["window_start"]), _seconds(one["window_end"])) for one in results]
    for size, slide in sizes:
        starts = [start for start, end in bounds if end - start == size]
        assert starts, life.about()
        assert starts == list(range(starts[0], starts[-1] + 1, slide)), f"{life.about()}: {starts}"
        made = {_seconds(one.result.window_start) for one in life.fleet.of(JOB) if _span_ms(one) == size * SECOND}
        assert made - set(starts) <= {max(made)}, life.about()


@pytest.mark.slow  # so they are before and after what others do to the fleet
def test_in_peace_every_window_is_whole() -> None:
    life = lived(1, ())
    check_windows(life)
    check_followed(life, (8, 2))
    workers = {server.name for server in life.fleet.workers()}
    for window in life.fleet.of(JOB)[5:]:
        assert window.contributors == workers
        assert not window.partial
    begun = life.fleet.of(JOB)[0]
    assert begun.partial == begun.contributors, "they began within it"


@pytest.mark.parametrize("seed", seeds(3, slow=[1]))
def test_the_next_master_goes_on_without_a_gap_or_a_wrong_number(seed: int) -> None:
    life = lived(seed, (crash_master,), 2)
    assert any("crashes" in fault for fault in life.faults)
    check_windows(life)
    check_followed(life, (8, 2))
    life.fleet.run(life.fleet.now + QUIET_S)
    last = life.fleet.of(JOB)[-1]
    assert last.contributors == {server.name for server in life.fleet.workers() if server.is_up}


@pytest.mark.slow
def test_a_master_that_hands_over_leaves_nobody_partial() -> None:
    """Those that stay have kept their panes, and hand them in again."""
    life = lived(4, ())
    fleet = life.fleet
    closer = fleet.add(node_id=key_of(JOB))
    before = len(fleet.of(JOB))
    fleet.run(fleet.now + 20.0)
    assert closer.agent.masters.state(key_of(JOB)) is not None
    windows = fleet.of(JOB)[before:]
    assert len({window.epoch for window in windows}) == 2
    assert all(not window.partial and not window.result.missing for window in windows)
    check_windows(life)
    check_followed(life, (8, 2))


@pytest.mark.parametrize(("seed", "trees"), seeds(slow=[(2, 1), (4, 3)]))
def test_restless_lives(seed: int, trees: int) -> None:
    life = lived(seed, ACTS, trees=trees)
    check_windows(life)
    check_followed(life, (8, 2))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 160))
def test_many_restless_lives(seed: int) -> None:
    life = lived(seed, (*ACTS, crash_master), 1 + seed % 4, trees=1 + seed % 3)
    check_windows(life)
    check_followed(life, (8, 2))


def test_several_sizes_at_once() -> None:
    life = lived(2, (crash_master, leave), 2, sql=SIZES)
    check_windows(life)
    check_followed(life, (2, 2), (8, 4))


def test_changes_of_windows_that_are_open() -> None:
    life = lived(2, (crash_master,), 1, sql=CHANGES)
    check_windows(life)
    check_followed(life, (6, 6))
    by_window: dict[str, list[dict[str, Any]]] = {}
    for result in followed(life):
        by_window.setdefault(result["window_start"], []).append(result)
    for windows in list(by_window.values())[1:-1]:
        assert [one.get("final", True) for one in windows] == [False] * (len(windows) - 1) + [True], life.about()
        assert len(windows) > 2, life.about()


FEWER = HOPPING.replace("GROUP BY", "WHERE product <> 'a' GROUP BY")
HAVING = HOPPING.replace("WINDOWING", "HAVING n > 3 WINDOWING")


def test_an_update_leaves_no_window_out_and_mixes_none() -> None:
    """Windows that are open when a version begins end on the version that they began with."""
    life = lived(1, ())
    fleet = life.fleet
    fleet.update(JOB, life.follower, FEWER)
    fleet.run(fleet.now + 25.0)
    check_windows(life)
    windows = fleet.of(JOB)
    begins = next(window for window in windows if window.version.number == 2).version.starts
    workers = {server.name for server in fleet.workers()}
    for window in windows[5:]:
        assert window.contributors == workers
        assert not window.partial
        shown = {row["product"] for row in window.result.rows}
        assert shown <= set(PRODUCTS if window.version.number == 1 else PRODUCTS[1:])
        assert (window.version.number == 2) == (window.pane >= begins)
    starts = [window.pane for window in windows]
    assert starts == list(range(starts[0], starts[-1] + 1, 2 * SECOND))


LONGER = HOPPING.replace("8 SECONDS EVERY 2 SECONDS", "12 SECONDS EVERY 3 SECONDS")
SHORTER = HOPPING.replace("8 SECONDS EVERY 2 SECONDS", "1 SECOND")
TEXTS = (FEWER, HAVING, HOPPING, LONGER, SHORTER)


def change(life: Life) -> None:
    """To other products, other groups shown of the same ones, or windows of other lengths."""
    text = life.fleet.random.choice(TEXTS)
    life.note(f"update to {text[45:]}")
    life.fleet.update(JOB, life.follower, text)


def check_none_left_out(life: Life) -> None:
    """Who has followed has every window of each version that begins before the next one does, once and in order."""
    results = [one for one in followed(life) if one.get("final", True)]
    versions = {window.version.number: window.version for window in life.fleet.of(JOB)}
    begun = {(one["version"], _seconds(one["window_start"])) for one in results}
    assert len(begun) == len(results), life.about()
    numbers = sorted(versions)
    assert len(numbers) > 1, life.about()
    for number, following in zip(numbers, [*numbers[1:], None], strict=True):
        text = versions[number].text
        slide = 3 if "EVERY 3" in text else 2 if "EVERY 2" in text else 1
        starts = sorted(start for version, start in begun if version == number)
        ends = starts[-1] + 1 if following is None else _seconds(_time(versions[following].starts))
        first = starts[0] if number == numbers[0] else -(-_seconds(_time(versions[number].starts)) // slide) * slide
        assert starts == list(range(first, ends, slide)), f"{life.about()}: version {number} has {starts}"
    ends_in_order = [_seconds(one["window_end"]) for one in results]
    assert ends_in_order == sorted(ends_in_order), life.about()


def _time(ms: int) -> str:
    return format_timestamp(ms) or ""


@pytest.mark.parametrize(("seed", "trees"), seeds(slow=[(1, 1), (2, 3), (3, 1), (4, 2), (6, 1)]))
def test_updates_in_peace_leave_nothing_out(seed: int, trees: int) -> None:
    life = lived(seed, (change,), 3, trees=trees)
    life.fleet.run(life.fleet.now + LONGEST_S)
    check_windows(life)
    check_none_left_out(life)
    workers = {server.name for server in life.fleet.workers()}
    assert all(window.contributors == workers for window in life.fleet.of(JOB)[8:]), life.about()
    assert all(not window.partial for window in life.fleet.of(JOB)[8:]), life.about()


@pytest.mark.parametrize("seed", seeds(slow=range(1, 8)))
def test_what_agents_have_prepared_is_in_windows_that_the_next_master_begins(seed: int) -> None:
    """A version waits for an agent that has died, and is decided on a moment before an epoch ends."""
    life = lived(seed, ())
    fleet, ((master, state),) = life.fleet, life.fleet.masters(JOB)
    fleet.crash(next(one for one in life.alive() if one is not master))
    fleet.update(JOB, life.follower, SHORTER)
    fleet.run(fleet.now + 1.0)
    for _ in range(200):
        if state.version == 1:
            fleet.run(fleet.now + 0.02)
    master.agent.masters.outdo(key_of(JOB), state.epoch, fleet.now)
    fleet.run(fleet.now + 25.0)
    check_windows(life)
    check_none_left_out(life)


@pytest.mark.parametrize(("seed", "trees"), seeds(slow=[(11, 1), (12, 2)]))
def test_updates_of_restless_lives(seed: int, trees: int) -> None:
    life = lived(seed, (*ACTS, crash_master, change, change), 4, trees=trees)
    check_windows(life)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(200, 260))
def test_many_updates_of_restless_lives(seed: int) -> None:
    source = random.Random(seed)
    life = begin_some(seed, source, trees=1 + seed % 3, sql=HOPPING)
    happen(life, [*source.choices((*ACTS, crash_master), k=1 + seed % 3), change, change])
    life.fleet.run(life.fleet.now + LONGEST_S + 8.0)
    check_windows(life)
    check_none_left_out(life)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(300, 330))
def test_many_updates_with_cuts_and_loss(seed: int) -> None:
    source = random.Random(seed)
    life = begin_some(seed, source, trees=1 + seed % 2, sql=HOPPING, loss=seed % 3 * 0.02)
    happen(life, [*source.choices((*ACTS, cut), k=seed % 3), cut, change, change])
    life.fleet.run(life.fleet.now + LONGEST_S + 8.0)
    check_contents(life)
    followed(life)


@pytest.mark.parametrize("seed", seeds(3, slow=range(4, 24)))
def test_an_agent_that_is_started_again_brings_what_it_had_for_old_windows(seed: int) -> None:
    """What it has sealed of them is on its disk, with the runs of the new version; the rest it reads again."""
    fleet, follower = begin_remembering(seed, 4, HOPPING)
    life = Life(fleet, follower, fleet.now)
    fleet.run(fleet.now + 8.0)
    text = fleet.random.choice((FEWER, SHORTER.replace("GROUP", "WHERE product <> 'a' GROUP"), LONGER))
    fleet.update(JOB, follower, text)
    fleet.run(fleet.now + fleet.random.uniform(2.0, 8.0))
    masters = [server for server, _ in fleet.masters(JOB)]
    one = next(server for server in fleet.workers() if server is not follower and server not in masters)
    life.note(f"{text[45:]}, {one.name} is started again")
    fleet.crash(one)
    fleet.at(fleet.now + 0.3, lambda: fleet.restart(one))
    fleet.run(fleet.now + 25.0)
    check_windows(life)
    windows = fleet.of(JOB)[5:]
    assert {window.version.number for window in windows} == {1, 2}, life.about()
    for window in windows:
        about = f"{life.about()}: {window}"
        assert window.contributors == {server.name for server in fleet.workers()}, about
        assert window.partial <= {one.name}, about
        logged = sum((server.counted(window.pane, _span_ms(window)) for server in fleet.workers()), Counter[str]())
        assert window.result.events == logged.total(), about
