"""Hosts that cannot process everything say so, and emitters drop whole families of events at the job's entry."""

from __future__ import annotations

import polars as pl
import pytest

from agent.runtime.keyed.hosting.layout import TypeLayout
from agent.runtime.keyed.hosting.rows.shedding import LOOK_S, Shedder, TakenShare
from overlay import Id, Peer

HOSTS = [Peer(Id(number), f"host-{number}:1") for number in range(3)]


def share_after(seconds: float, load: float) -> list[float]:
    """The shares that a host tells to which `load` times what it can process comes, less what is shed."""
    share, shares, processed, queued = TakenShare(), list[float](), 0, 0
    for look in range(1, int(seconds / LOOK_S)):
        queued += int(1_000 * load * share.told)
        processed, queued = processed + min(queued, 1_000), max(0, queued - 1_000)
        share.look(processed, queued, look * LOOK_S * 1.0001)
        shares.append(share.told)
    return shares


def test_a_host_that_keeps_up_takes_everything() -> None:
    assert set(share_after(30.0, 1.0)) == {1.0}


@pytest.mark.parametrize("load", [1.2, 2.75, 8.0])
def test_a_host_takes_as_much_as_it_can_process_and_its_share_does_not_jump(load: float) -> None:
    shares = share_after(60.0, load)[int(20 / LOOK_S) :]
    assert all(0.97 / load < share < 1.03 / load for share in shares)


def test_a_host_takes_everything_again_when_less_comes() -> None:
    share, now, processed = TakenShare(), 0.0, 0
    for queued in (50_000, 40_000, 30_000, 20_000, 10_000, 0):
        now, processed = now + 2 * LOOK_S, processed + 10_000
        share.look(processed, queued, now)
    assert share.told < 1
    while share.told < 1 and now < 60:
        now, processed = now + 2 * LOOK_S, processed + 100
        share.look(processed, 0, now)
    assert share.told == 1.0
    assert share.next_timer(0) is None, "nothing is to be looked at"


def type_of(name: str, *, guaranteed: bool = False) -> TypeLayout:
    return TypeLayout(0, name, guaranteed, "serve", pl.Schema({"serve": pl.String()}), (), ())


def test_events_of_one_serve_stay_or_go_together_by_the_smallest_share() -> None:
    shedder, serve, click = Shedder(), type_of("Serve"), type_of("Click")
    rows = pl.DataFrame({"serve": [f"s{number}" for number in range(10_000)]})
    assert shedder.kept(serve, rows).height == 10_000
    for host, share in zip(HOSTS, (0.9, 0.3, 0.6), strict=True):
        shedder.heard(host, share)
    serves, clicks = (set(shedder.kept(one, rows)["serve"]) for one in (serve, click))
    assert serves == clicks
    assert 2_800 < len(serves) < 3_200
    assert shedder.shed == {"Serve": 10_000 - len(serves), "Click": 10_000 - len(serves)}
    shedder.forget(HOSTS[1])
    more = set(shedder.kept(serve, rows)["serve"])
    assert serves < more
    assert 5_700 < len(more) < 6_300
    for host in HOSTS:
        shedder.heard(host, 1.0)
    assert shedder.kept(serve, rows).height == 10_000


def test_nothing_guaranteed_is_shed() -> None:
    shedder = Shedder()
    shedder.heard(HOSTS[0], 0.01)
    assert shedder.kept(type_of("Serve", guaranteed=True), pl.DataFrame({"serve": ["a"] * 100})).height == 100
