"""Agents whose machines lose their power: only silence tells of it, and windows are not much later for that."""

from __future__ import annotations

import pytest
from lives import DEEP, JOB, Life, begin
from seeds import seeds
from simulated_fleet import Server, key_of
from window_checks import check_windows

GRACE_S = 1.0
QUERY = "SELECT product, COUNT(*) AS n FROM web GROUP BY product WINDOWING 2 SECONDS RECOVER FOR 0 SECONDS"
LATEST_S = {"leaf": 4.5, "interior": 5.5, "master": 7.5}
"""The targets of benchmarks.recovery, and half a second: these links and agents are slower than those there."""


def of_kind(life: Life, kind: str) -> Server:
    """An agent of that kind, whose parent is not the master if it has one."""
    fleet, key = life.fleet, key_of(JOB)
    ((master, _),) = fleet.masters(JOB)
    if kind == "master":
        return master
    for server in life.alive():
        parent = server.node.parent(key)
        is_inner = bool(server.node.children(key))
        if parent is not None and is_inner == (kind == "interior") and (is_inner or parent != master.node.peer):
            return server
    raise AssertionError(f"{life.about()}: no {kind}")


@pytest.mark.parametrize(
    ("kind", "seed"), seeds(("leaf", 1), slow=[(kind, seed) for kind in LATEST_S for seed in (2, 3, 4)])
)
def test_windows_wait_for_the_dead_no_longer_than_silence_needs(kind: str, seed: int) -> None:
    life = begin(seed, DEEP, sql=QUERY)
    fleet = life.fleet
    victim = of_kind(life, kind)
    fleet.run(fleet.now + fleet.random.random())
    killed_at = fleet.now
    fleet.simulator.cut([victim.node], [one.node for one in fleet.servers.values() if one is not victim])
    fleet.crash(victim)
    fleet.run(killed_at + 12.0)
    check_windows(fleet)
    late_s = [one.at - (one.pane - 1_700_000_000_000) / 1000 - 2.0 - GRACE_S for one in fleet.of(JOB)]
    since = [late for late, one in zip(late_s, fleet.of(JOB), strict=True) if one.at > killed_at]
    assert len(since) > 3, f"seed {seed}"
    assert max(since) <= LATEST_S[kind], f"seed {seed}: {max(since):.2f} s after a {kind} died"
    if kind == "leaf":
        assert sum(one.agent.tree_watch.statistics()["reports"] for one in fleet.servers.values()) >= 1
