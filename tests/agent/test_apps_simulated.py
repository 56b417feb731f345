"""Jobs that read another job's results, while masters of both die, leave, stand still and hand over."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import pytest
from lives import ACTS, JOB, Life, begin, crash_master, happen
from recording_client import client_of
from seeds import seeds
from simulated_fleet import PANE_MS, Server, key_of, published
from window_checks import check_windows

from agent import Ended, PublishedWindow
from agent.runtime.fleet.job_directory import SILENCE_S
from agent.runtime.master.results import result_log
from agent.runtime.model.panes import FIRST_PANE
from overlay import distance

TOP = "top"
SIZE_MS = 3 * PANE_MS
READ = f"SELECT product, SUM(n) AS n, COUNT(*) AS windows FROM app('{JOB}') GROUP BY product WINDOWING 6 SECONDS"

JOINED = (
    f"SELECT web.product, COUNT(*) AS n FROM web LEFT JOIN app('{JOB}') AS o ON web.product = o.product "
    "GROUP BY web.product WINDOWING 2 SECONDS"
)


def begin_reading(seed: int, size: int = 6, *, loss: float = 0.0) -> Life:
    life = begin(seed, size, loss=loss)
    fleet = life.fleet
    fleet.submit(TOP, life.follower, READ)
    client_of(life.follower.agent).follow(key_of(TOP), None, fleet.now)
    fleet.run(fleet.now + 14.0)
    life.began_at = fleet.now
    return life


def results_of(life: Life, name: str) -> dict[int, dict[str, Any]]:
    """All that went out, by pane: a master may die when it has sent a result, or when only its replicas have it.

    Both a master that stood still and the one that took over may publish a window: what followers got counts.
    """
    lines = [(one.pane, one.result.to_json()) for one in life.fleet.of(name) if not life.has_stood_still]
    for server in life.fleet.servers.values():
        shown = (notice for notice in server.followed[key_of(name)] if isinstance(notice, PublishedWindow))
        lines += [(notice.pane, bytes(notice.result).decode()) for notice in shown]
    assert len(set(lines)) == len({pane for pane, _ in lines}), f"{life.about()}: two results of one window of {name}"
    return {pane: json.loads(line) for pane, line in sorted(lines)}


def counts(result: dict[str, Any]) -> Counter[str]:
    return Counter({row["product"]: row["n"] for row in result["rows"]})


def check_readers(life: Life, *, gaps: bool = False) -> None:
    """Each window holds what the other job's results in it do; what those lacked shows, and none is left out.

    `gaps`: results may have been lost before they could be read; that shows too.
    """
    source, found = results_of(life, JOB), results_of(life, TOP)
    for start, one in found.items():
        inside = [read for pane, read in source.items() if start <= pane < start + SIZE_MS]
        expected = sum(map(counts, inside), Counter[str]())
        lacks = any(read["missing"] or read["partial"] for read in inside)
        about = f"{life.about()}: {one}"
        assert (one["contributors"], one["expected"], one["late"]) == (1, 1, 0), about
        assert counts(one) == expected or (gaps and one["partial"] and counts(one) < expected), about
        assert bool(one["partial"]) == lacks or (gaps and one["partial"]), about
    panes, last = list(found), max(source)
    if not gaps:
        held = {pane // SIZE_MS * SIZE_MS for pane in source}
        assert panes == [pane for pane in sorted(held) if panes[0] <= pane <= panes[-1]], life.about()
    assert panes[-1] >= last - 2 * SIZE_MS, f"{life.about()}: {last - panes[-1]} ms behind"
    shown = published(life.follower, key_of(TOP))
    assert shown == [pane for pane in panes if shown[0] <= pane <= shown[-1]], f"{life.about()}: {shown}"
    assert shown[-1] in panes[-2:], f"{life.about()}: the last one may be on its way, {shown[-1]} is not"


def master(life: Life, name: str) -> Server:
    ((server, _),) = life.fleet.masters(name)
    return server


def follow_from_elsewhere(life: Life, *names: str) -> None:
    """Somebody follows to whom nothing happens."""
    masters = [master(life, name) for name in names]
    if life.follower in masters:
        life.follower = next(one for one in life.alive() if one not in masters)
        client_of(life.follower.agent).follow(key_of(TOP), FIRST_PANE, life.fleet.now)
        client_of(life.follower.agent).follow(key_of(JOB), FIRST_PANE, life.fleet.now)
        life.fleet.run(life.fleet.now + 1.0)


@pytest.mark.parametrize("seed", seeds(1, slow=(2, 3)))
@pytest.mark.parametrize(
    "whose",
    [
        pytest.param([TOP], id="reader", marks=pytest.mark.slow),
        pytest.param([JOB], id="read", marks=pytest.mark.slow),
        pytest.param([TOP, JOB], id="both"),
    ],
)
def test_when_masters_die_no_window_is_lost_or_read_twice(seed: int, whose: Sequence[str]) -> None:
    life = begin_reading(seed)
    follow_from_elsewhere(life, JOB, TOP)
    was = {name: master(life, name).name for name in (TOP, JOB)}
    victims = {one.name: one for one in (master(life, name) for name in whose)}
    for victim in victims.values():
        life.note(f"{victim.name} dies")
        life.fleet.crash(victim)
    life.fleet.run(life.fleet.now + 40.0)
    check_windows(life.fleet)
    check_readers(life)
    for name in (TOP, JOB):
        epochs = {one.epoch[1] for one in life.fleet.of(name)}
        assert epochs == ({1, 2} if was[name] in victims else {1})


@pytest.mark.parametrize("seed", seeds(1, slow=(2,)))
def test_a_closer_node_reads_on(seed: int) -> None:
    life = begin_reading(seed)
    closer = life.fleet.add("web", node_id=key_of(TOP))
    life.fleet.run(life.fleet.now + 25.0)
    assert master(life, TOP) is closer
    check_readers(life)
    assert {one.epoch[1] for one in life.fleet.of(TOP)} == {1, 2}


@pytest.mark.parametrize("seed", seeds(slow=(1, 2, 3)))
def test_an_agent_that_leaves_hands_the_reading_over(seed: int) -> None:
    life = begin_reading(seed)
    follow_from_elsewhere(life, TOP)
    life.fleet.leave(master(life, TOP))
    life.fleet.run(life.fleet.now + 30.0)
    check_readers(life)
    assert {one.epoch[1] for one in life.fleet.of(TOP)} == {1, 2}


@pytest.mark.parametrize("seed", seeds(slow=(1, 2)))
def test_windows_that_are_not_kept_long_enough_are_missed_honestly(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader's agent stands still, and the job it reads keeps two results."""
    monkeypatch.setattr(result_log, "RESULTS_MAX", 2)
    life = begin_reading(seed)
    follow_from_elsewhere(life, JOB, TOP)
    still = master(life, TOP)
    assert still is not master(life, JOB)
    life.has_stood_still = True
    life.fleet.stall(still, 12.0)
    life.fleet.run(life.fleet.now + 40.0)
    check_readers(life, gaps=True)
    assert any(one.result.partial for one in life.fleet.of(TOP))


@pytest.mark.parametrize("seed", seeds(1, slow=(2,)))
@pytest.mark.slow  # by default what was not kept long enough is missed
def test_results_too_large_for_replicas_are_missed_honestly(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both masters die, beside which there are no logs: the next one of the job that is read knows what it lacks."""
    life = begin_reading(seed)
    fleet = life.fleet
    masters = [fleet.add(node_id=key_of(name)) for name in (JOB, TOP)]
    fleet.run(fleet.now + 15.0)
    assert [master(life, name) for name in (JOB, TOP)] == masters
    monkeypatch.setattr(result_log, "GIVEN_RESULT_BYTES_MAX", 100)
    fleet.run(fleet.now + 7.0)
    while max(results_of(life, JOB)) % SIZE_MS != PANE_MS:  # of the three in a window of the reader, one is to come
        fleet.run(fleet.now + 0.1)
    fleet.run(fleet.now + 1.0)
    for one in masters:
        fleet.crash(one)
    fleet.run(fleet.now + 40.0)
    check_readers(life, gaps=True)
    assert all(one["missing"] == [] for one in results_of(life, JOB).values())
    partial = [one for one in results_of(life, TOP).values() if one["partial"]]
    assert len(partial) == 1, "what is lost shows, and only there"


@pytest.mark.parametrize("seed", seeds(slow=(1, 2)))
def test_a_job_that_is_gone_without_a_word_ends_its_readers(seed: int) -> None:
    """Everybody dies who knows its roster: nobody can say that it is over."""
    life = begin_reading(seed, size=9)
    fleet = life.fleet
    reader = fleet.add(node_id=key_of(TOP))
    fleet.run(fleet.now + 10.0)
    assert master(life, TOP) is reader
    agents = [(server, server.agent) for server in fleet.servers.values()]
    knowing = [
        one for one, agent in agents if agent.masters.state(key_of(JOB)) or key_of(JOB) in agent.status().replicas
    ]
    assert reader not in knowing
    life.follower = next(one for one in fleet.workers() if one not in (*knowing, reader))
    client_of(life.follower.agent).follow(key_of(TOP), FIRST_PANE, fleet.now)
    for one in knowing:
        fleet.crash(one)
    fleet.run(fleet.now + 2 * SILENCE_S)
    assert fleet.masters(JOB) == []
    assert fleet.masters(TOP) == []
    assert Ended("finished") in life.follower.followed[key_of(TOP)]


@pytest.mark.parametrize("seed", seeds(slow=(1, 2, 3, 4)))
def test_joined_events_are_counted_once_through_all_of_it(seed: int) -> None:
    """Whichever window of the other job an agent holds, each product is there once or not at all."""
    life = begin(seed, size=7)
    fleet = life.fleet
    fleet.submit("joined", life.follower, JOINED)
    client_of(life.follower.agent).follow(key_of("joined"), None, fleet.now)
    fleet.run(fleet.now + 10.0)
    life.began_at = fleet.now
    follow_from_elsewhere(life, JOB, "joined")
    happen(life, [crash_master, *(fleet.random.choice(ACTS) for _ in range(3))])
    check_windows(fleet)
    found = fleet.of("joined")
    assert len(found) >= 10
    there = {server.name for server in fleet.workers() if server.is_up}
    assert there <= found[-1].contributors | found[-2].contributors
    joined_with = fleet.of(JOB)[-4:]
    if all(one.result.missing == [] for one in joined_with):
        assert found[-1].result.partial == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(1, slow=(2, 3, 4, 5, 6)))
def test_lives(seed: int) -> None:
    life = begin_reading(seed, size=8)
    follow_from_elsewhere(life, JOB, TOP)
    source = life.fleet.random
    acts: list[Callable[[Life], None]] = [source.choice(ACTS) for _ in range(4)]
    happen(life, acts)
    check_windows(life.fleet)
    check_readers(life)


@pytest.mark.slow
def test_messages_get_lost() -> None:
    life = begin_reading(1, loss=0.02)
    follow_from_elsewhere(life, JOB, TOP)
    life.fleet.run(life.fleet.now + 40.0)
    check_readers(life)


@pytest.mark.slow  # test_lives_simulated.py shows it of the same simulator
def test_the_same_seed_is_the_same_life() -> None:
    prints = set()
    for _ in range(2):
        life = begin_reading(5)
        life.fleet.crash(next(one for one in life.alive() if one is not master(life, JOB)))
        life.fleet.run(life.fleet.now + 12.0)
        prints.add(str(life.fleet.fingerprint()))
    assert len(prints) == 1


def begin_circle(seed: int) -> tuple[Life, str]:
    """The rows of a job with owners go to a job whose master is on another agent, and from there to one whose master is
    on its own master's agent again; the life, and the last job's name."""
    life = begin(seed, 5, trees=3)
    fleet, first = life.fleet, master(life, JOB)

    def name_at(*, same: bool) -> str:
        names = (f"job {number}" for number in count())
        nodes = {server.node.peer.node_id: server for server in fleet.servers.values()}
        return next(
            name for name in names if (nodes[min(nodes, key=lambda one: distance(key_of(name), one))] is first) == same
        )

    other, back = name_at(same=False), name_at(same=True)
    for name, read, seconds in ((other, JOB, 4), (back, other, 8)):
        text = f"SELECT product, SUM(n) AS n FROM app('{read}') GROUP BY product WINDOWING {seconds} SECONDS"
        fleet.submit(name, life.follower, text)
        client_of(life.follower.agent).follow(key_of(name), None, fleet.now)
        fleet.run(fleet.now + 4.0)
    assert master(life, back) is master(life, JOB) is not master(life, other)
    fleet.run(fleet.now + 16.0)
    life.began_at = fleet.now
    return life, back


@pytest.mark.parametrize(
    ("seed", "dies"), seeds((1, True), slow=[(2, False), *((seed, True) for seed in range(3, 12))])
)
def test_rows_that_come_back_to_where_they_come_from_wait_for_nothing(seed: int, dies: bool) -> None:
    """Components of a job may send rows to each other in a circle; what they wait for is an operator's own."""
    life, back = begin_circle(seed)
    fleet = life.fleet
    if dies:
        life.note(f"{master(life, JOB).name} dies")
        fleet.crash(master(life, JOB))
    fleet.run(fleet.now + 40.0)
    source, found = results_of(life, JOB), results_of(life, back)
    for start, one in list(found.items())[1:]:
        inside = [read for pane, read in source.items() if start <= pane < start + 4 * PANE_MS]
        assert len(inside) == 4, life.about()
        assert counts(one) == sum(map(counts, inside), Counter[str]()), f"{life.about()}: {one}"
    panes = list(found)
    assert panes == list(range(panes[0], panes[-1] + 1, 4 * PANE_MS)), life.about()
    assert panes[-1] >= max(source) - 8 * PANE_MS, f"{life.about()}: {max(source) - panes[-1]} ms behind"
