"""Networks that fall apart and grow together again: one ring, one root a key, in each part and in the whole."""

import random

import pytest
from living_overlay import LivingOverlay
from seeds import seeds


@pytest.mark.parametrize("seed", seeds(4, slow=[0, 1, 2, 3]))
def test_each_side_of_a_cut_goes_on_and_both_become_one_again(seed: int) -> None:
    source = random.Random(seed)
    overlay = LivingOverlay(seed, source.choice([3, 8, 16, 24]))
    overlay.simulator.loss = source.choice([0.0, 0.05])
    side = overlay.some(source.uniform(0.01, 0.5))
    rest = [node for node in overlay.live if node not in side]
    overlay.simulator.cut(side, rest)
    apart = overlay.heal(side, rest)
    print(f"seed {seed}: {len(side)} cut from {len(rest)}, loss {overlay.simulator.loss}; {apart}")
    assert apart.trees <= 10.0
    assert apart.leaf_sets <= 15.0
    overlay.run(source.uniform(0.0, 120.0))
    overlay.simulator.heal()
    together = overlay.heal(overlay.live)
    print(f"seed {seed}: healed; {together}")
    assert together.roots <= 20.0, "gone peers are tried every 15 s, more or less"
    assert together.all_s <= 25.0
    overlay.assert_multicasts_arrive()


@pytest.mark.parametrize("seed", seeds(0, slow=[1, 2]))
def test_a_cut_shorter_or_hardly_longer_than_the_detection_time_leaves_no_trace(seed: int) -> None:
    overlay = LivingOverlay(seed, 20)
    side = overlay.some(0.4)
    overlay.simulator.cut(side, [node for node in overlay.live if node not in side])
    overlay.run(random.Random(seed).uniform(1.0, 6.0))
    overlay.simulator.heal()
    healing = overlay.heal(overlay.live)
    print(f"seed {seed}: {healing}")
    assert healing.roots <= 20.0
    assert healing.all_s <= 25.0
    overlay.assert_multicasts_arrive()


def test_a_node_alone_finds_the_others_again_after_hours() -> None:
    overlay = LivingOverlay(1, 3, groups=2)
    alone = overlay.some(0.1)
    overlay.simulator.cut(alone, [node for node in overlay.live if node not in alone])
    overlay.run(3600.0)
    assert [alone[0].is_root(key) for key in overlay.keys] == [True, True]
    assert alone[0].neighbours(3) == ()
    overlay.simulator.heal()
    healing = overlay.heal(overlay.live)
    print(f"{healing}")
    assert healing.all_s <= 20.0


@pytest.mark.parametrize(("size", "other_size"), seeds((1, 1), (1, 12), (8, 8), slow=[(30, 20)]))
def test_two_rings_that_never_knew_of_each_other_become_one_when_one_node_meets_another(
    size: int, other_size: int
) -> None:
    overlay = LivingOverlay(1, size)
    others = [overlay.simulator.add_node() for _ in range(other_size)]
    others[0].start(overlay.now)
    for node in others:
        if node is not others[0]:
            node.join(others[0].peer, overlay.now)
        for key in overlay.keys:
            node.subscribe(key, overlay.now)
        overlay.run(0.5)
    overlay.run(10.0)
    assert overlay.errors(others) == []
    overlay.random.choice(overlay.live).meet(overlay.random.choice(others).peer, overlay.now)
    overlay.live += others
    healing = overlay.heal(overlay.live)
    print(f"{size} and {other_size}: {healing}")
    assert healing.all_s <= 10.0
    overlay.assert_multicasts_arrive()


def test_meeting_whom_one_knows_changes_nothing() -> None:
    overlay = LivingOverlay(1, 12)
    before = [(node.leaf_set.members, [node.parent(key) for key in overlay.keys]) for node in overlay.live]
    for node in overlay.live:
        node.meet(overlay.random.choice(overlay.live).peer, overlay.now)
        node.meet(node.peer, overlay.now)
    overlay.run(5.0)
    assert before == [(node.leaf_set.members, [node.parent(key) for key in overlay.keys]) for node in overlay.live]


def trouble(overlay: LivingOverlay, source: random.Random) -> None:
    """Make one thing go wrong, or right again."""
    match source.choice(["crash", "restart", "stall", "cut", "heal", "join", "leave", "wait"]):
        case "crash" if len(overlay.live) > 6:
            overlay.crash(overlay.some(source.uniform(0.0, 0.2)))
        case "restart" if len(overlay.live) > 6:
            dead = overlay.some(0.0)
            overlay.crash(dead)
            overlay.run(source.uniform(0.0, 5.0))
            overlay.join(overlay.simulator.restart(dead[0], address=source.choice([None, f"moved at {overlay.now}"])))
        case "stall":
            overlay.simulator.stall(overlay.some(0.0)[0], overlay.now + source.uniform(0.5, 15.0))
        case "cut":
            side = overlay.some(source.uniform(0.0, 0.5))
            overlay.simulator.cut(side, [node for node in overlay.live if node not in side])
        case "heal":
            overlay.simulator.heal()
        case "join":
            overlay.join(overlay.simulator.add_node())
        case "leave" if len(overlay.live) > 6:
            (leaver,) = overlay.some(0.0)
            overlay.live.remove(leaver)
            leaver.leave(overlay.now)
        case _:
            overlay.run(source.uniform(0.0, 20.0))


def end_of_troubles(overlay: LivingOverlay) -> None:
    """Heal the network, and do what shells do: try other contacts, and seeds.

    Without seeds, a node that was started anew at another address while it was cut off could not be found again.
    """
    overlay.simulator.loss = 0.0
    overlay.simulator.heal()
    seed = next(node for node in overlay.live if node.is_active)
    for _ in range(30):
        for node in overlay.live:
            if node.is_active:
                node.meet(seed.peer, overlay.now)
            else:
                node.join(seed.peer, overlay.now)
        overlay.run(2.0)
        if all(node.is_active for node in overlay.live):
            return
    raise AssertionError("some nodes never got in")


@pytest.mark.parametrize("seed", seeds(6, slow=[0, 1, 2, 3, 4, 5, 7]))
def test_whatever_happened_the_overlay_ends_up_sound(seed: int) -> None:
    source = random.Random(seed)
    overlay = LivingOverlay(seed, source.choice([6, 12, 16]), groups=2)
    overlay.simulator.loss = source.choice([0.0, 0.0, 0.05, 0.2])
    for _ in range(25):
        trouble(overlay, source)
        overlay.run(source.uniform(0.0, 3.0))
        for node in overlay.live:
            node.check()
    end_of_troubles(overlay)
    healing = overlay.heal(overlay.live)
    print(f"seed {seed}: {len(overlay.live)} nodes, {overlay.now:.0f} s; {healing}")
    assert healing.all_s <= 45.0
    overlay.assert_multicasts_arrive()


def test_troubles_follow_from_the_seed() -> None:
    def run_trace() -> tuple[str, int]:
        source = random.Random(5)
        overlay = LivingOverlay(5, 8, groups=2)
        for _ in range(12):
            trouble(overlay, source)
            overlay.run(1.0)
        return overlay.simulator.trace_hash(), overlay.simulator.delivered

    assert run_trace() == run_trace()
