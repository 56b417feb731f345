"""Nodes that crash, stand still and come back. A failure names its seed; tests print what they measured."""

import random

import pytest
from living_overlay import LivingOverlay
from seeds import seeds

from overlay import Delivered, PeerFailed, PeerLeft

ORPHANS_P99_S = 5.0


def lossy(overlay: LivingOverlay, source: random.Random) -> LivingOverlay:
    overlay.simulator.loss = source.choice([0.0, 0.02, 0.1])
    overlay.run(5.0)
    return overlay


@pytest.mark.parametrize("seed", seeds(5, slow=[0, 1, 2, 3, 4, 6, 7]))
def test_after_a_crash_of_many_at_once_every_leaf_set_and_tree_heals(seed: int) -> None:
    """Their processes are gone, so whoever sends to them is told so."""
    source = random.Random(seed)
    overlay = lossy(LivingOverlay(seed, source.choice([8, 20, 32])), source)
    dead = overlay.some(source.uniform(0.01, 0.3))
    overlay.crash(dead)
    healing = overlay.heal(overlay.live)
    print(f"seed {seed}: {len(dead)} crashed, {len(overlay.live)} left, loss {overlay.simulator.loss}; {healing}")
    assert healing.orphaned_s(0.99) <= ORPHANS_P99_S
    assert healing.roots <= 5.0
    assert healing.leaf_sets <= 12.0
    overlay.assert_multicasts_arrive()


@pytest.mark.parametrize("seed", seeds(0, slow=[1, 2, 3, 4, 5]))
def test_without_a_word_from_the_network_it_takes_the_detection_time_longer(seed: int) -> None:
    source = random.Random(seed)
    overlay = lossy(LivingOverlay(seed, source.choice([8, 20, 32])), source)
    dead = overlay.some(source.uniform(0.01, 0.3))
    overlay.crash(dead, is_silent=True)
    healing = overlay.heal(overlay.live)
    print(f"seed {seed}: {len(dead)} silent, {len(overlay.live)} left, loss {overlay.simulator.loss}; {healing}")
    assert healing.orphaned_s(0.99) <= 3.0 + ORPHANS_P99_S
    assert healing.roots <= 3.0 + 5.0
    assert healing.leaf_sets <= 10.0 + 5.0
    overlay.assert_multicasts_arrive()


def test_whoever_knew_a_failed_node_says_so_once_and_forgets_it() -> None:
    overlay = LivingOverlay(1, 20)
    dead = overlay.live[3]
    knew = [node for node in overlay.live if dead.peer.node_id in node.leaf_set]
    overlay.crash([dead])
    overlay.heal(overlay.live)
    for node in knew:
        assert overlay.departures(node, PeerFailed) == [dead.peer.node_id]
        assert overlay.leaf_set_changes(node) >= 1
        assert dead.peer not in [*node.leaf_set, *node.routing_table, *node.neighbours(16)]
        assert node.closest(dead.peer.node_id) != dead.peer


@pytest.mark.parametrize("is_silent", [False, True])
@pytest.mark.parametrize("seed", seeds(0, slow=[1]))
def test_what_was_given_to_a_dead_hop_goes_another_way(seed: int, is_silent: bool) -> None:
    overlay = LivingOverlay(seed, 30, groups=2)
    overlay.crash(overlay.some(0.2), is_silent=is_silent)
    keys = [overlay.random.getrandbits(128) for _ in range(200)]
    for key in keys:
        overlay.random.choice(overlay.live).route(key, b"", overlay.now)
    overlay.heal(overlay.live)
    arrived = {event.key for *_, event in overlay.events if isinstance(event, Delivered)}
    again = sum(node.statistics().rerouted for node in overlay.live)
    print(f"seed {seed}: {again} of 200 messages were sent again, {200 - len(arrived)} lost")
    assert again > 0
    assert arrived == set(keys)


@pytest.mark.parametrize("seed", seeds(5, slow=[0, 1, 2, 3, 4]))
def test_restarted_nodes_of_the_same_ids_find_their_places_again(seed: int) -> None:
    source = random.Random(seed)
    overlay = lossy(LivingOverlay(seed, 20), source)
    dead = overlay.some(source.uniform(0.05, 0.3))
    pause_s, moves = source.choice([0.0, 0.5, 2.0, 6.0, 30.0]), source.choice([True, False])
    overlay.crash(dead)
    overlay.run(pause_s)
    fresh = [
        overlay.simulator.restart(node, address=f"new-{number}" if moves else None) for number, node in enumerate(dead)
    ]
    for node in fresh:
        overlay.join(node)
    healing = overlay.heal(overlay.live)
    print(f"seed {seed}: {len(dead)} back after {pause_s} s, moved {moves}; {healing}")
    assert healing.trees <= 6.0
    assert healing.leaf_sets <= 12.0
    addresses = {node.peer.node_id: node.peer.address for node in overlay.live}
    for node in overlay.live:
        near = [*node.leaf_set, *(child for key in overlay.keys for child in node.children(key))]
        near += [parent for key in overlay.keys if (parent := node.parent(key)) is not None]
        assert all(peer.address == addresses[peer.node_id] for peer in near)
    overlay.assert_multicasts_arrive()


@pytest.mark.parametrize("seed", seeds(0, slow=[1, 2]))
def test_nobody_fails_over_a_short_standstill(seed: int) -> None:
    overlay = LivingOverlay(seed, 20)
    for node in overlay.some(0.2):
        overlay.simulator.stall(node, overlay.now + 1.5)
    overlay.run(10.0)
    assert [event for *_, event in overlay.events if isinstance(event, PeerFailed)] == []
    assert overlay.errors(overlay.live) == []


@pytest.mark.parametrize("seed", seeds(3, slow=[0, 1, 2]))
def test_a_node_that_stood_still_for_long_takes_nobody_for_dead_and_is_taken_back(seed: int) -> None:
    source = random.Random(seed)
    overlay = LivingOverlay(seed, 18)
    stalled, pause_s = overlay.some(source.uniform(0.05, 0.3)), source.uniform(5.0, 40.0)
    others = [node for node in overlay.live if node not in stalled]
    for node in stalled:
        overlay.simulator.stall(node, overlay.now + pause_s)
    overlay.run(pause_s)
    assert any(overlay.departures(node, PeerFailed) for node in others)
    healing = overlay.heal(overlay.live)
    print(f"seed {seed}: {len(stalled)} of 18 stood still for {pause_s:.1f} s; {healing}")
    assert max(healing.orphaned_s(1.0), healing.roots, healing.leaf_sets) <= 2.0
    assert healing.trees <= 7.0, "what overtook on the way is mended by the next digest"
    alive = {node.peer.node_id for node in others}
    assert all(alive.isdisjoint(overlay.departures(node, PeerFailed)) for node in overlay.live)
    overlay.assert_multicasts_arrive()


@pytest.mark.parametrize("seed", seeds(1, slow=[0, 2]))
def test_who_says_goodbye_is_missed_by_nobody(seed: int) -> None:
    overlay = LivingOverlay(seed, 18)
    leaver = overlay.random.choice(overlay.live)
    overlay.live.remove(leaver)
    knew = [node for node in overlay.live if leaver.peer.node_id in node.leaf_set]
    leaver.leave(overlay.now)
    assert not leaver.is_active
    assert leaver.next_timer() is None
    assert (leaver.groups, len(leaver.leaf_set), len(leaver.routing_table)) == ((), 0, 0)
    healing = overlay.heal(overlay.live)
    print(f"seed {seed}: {healing}")
    assert healing.orphaned_s(1.0) <= 1.0
    # Messages overtake each other here: its last pings may come after its goodbye, an answer to a ping before it.
    failed = {event.peer for *_, event in overlay.events if isinstance(event, PeerFailed)}
    assert failed <= {leaver.peer}
    for node in knew:
        assert {*overlay.departures(node, PeerLeft), *overlay.departures(node, PeerFailed)} == {leaver.peer.node_id}
    assert sum(leaver.peer.node_id in overlay.departures(node, PeerLeft) for node in knew) > len(knew) // 2
    overlay.add(leaver)
    overlay.heal(overlay.live)
    overlay.assert_multicasts_arrive()
