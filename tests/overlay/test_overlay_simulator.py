"""Whole overlays in virtual time. Tests print what they measured; a failure names its seed in the id."""

import random
from collections.abc import Callable
from math import log
from pathlib import Path

import pytest
from overlay_oracle import check_all, leaf_set_errors, simulated_overlay
from seeds import seeds

from overlay import (
    Delivered,
    Event,
    Latency,
    LatencyMatrixError,
    MatrixLatency,
    Node,
    PlaneLatency,
    RandomSource,
    Simulator,
    UniformLatency,
    closest,
)

Seed = pytest.mark.parametrize("seed", seeds(1, slow=[2]))


class Deliveries:
    def __init__(self) -> None:
        self.seen: list[tuple[int, Delivered]] = []

    def __call__(self, _now: float, node: Node, event: Event) -> None:
        if isinstance(event, Delivered):
            self.seen.append((node.peer.node_id, event))


@pytest.mark.parametrize(("size", "count"), seeds((100, 2000), slow=[(256, 10_000)]))
@Seed
def test_nodes_route_keys_to_the_closest_node(seed: int, size: int, count: int) -> None:
    source, deliveries = random.Random(seed), Deliveries()
    simulator = Simulator(source, on_event=deliveries)
    nodes = simulated_overlay(simulator, size, source)
    assert leaf_set_errors(nodes) == []
    keys = [source.getrandbits(128) for _ in range(count)]
    for key in keys:
        source.choice(nodes).route(key, b"", simulator.now)
    simulator.run(simulator.now + 1.0)
    ids = [node.peer.node_id for node in nodes]
    assert sorted(event.key for _, event in deliveries.seen) == sorted(keys)
    assert all(node_id == closest(event.key, ids) for node_id, event in deliveries.seen)
    hops = sum(node.statistics().delivered_hops for node in nodes) / len(keys)
    print(f"seed {seed}: mean hops {hops:.3f} over {len(nodes)} nodes")
    assert hops <= log(size, 16) + 0.5
    check_all(nodes)


def run_trace(seed: int, loss: float = 0.05) -> tuple[str, int]:
    source = random.Random(seed)
    simulator = Simulator(source, loss=loss, latency=PlaneLatency(source))
    nodes = simulated_overlay(simulator, 20, source)
    for key in (1, 2**127):
        for node in nodes:
            node.subscribe(key, simulator.now)
        source.choice(nodes).multicast(key, b"hello", simulator.now)
    simulator.run(simulator.now + 30.0)
    return simulator.trace_hash(), simulator.delivered


@pytest.mark.slow
def test_a_seed_fixes_every_message_and_another_seed_makes_another_run() -> None:
    assert run_trace(1) == run_trace(1)
    assert run_trace(1) != run_trace(2)
    assert run_trace(1) != run_trace(1, loss=0.06)


@pytest.mark.parametrize("size", seeds(100, slow=[256, 1280]))
@Seed
def test_nodes_that_join_at_once_through_three_seeds_converge(seed: int, size: int) -> None:
    source = random.Random(seed)
    simulator = Simulator(source)
    nodes = [simulator.add_node() for _ in range(size)]
    nodes[0].start(0.0)
    for node in nodes[1:]:
        node.join(source.choice(nodes[:3]).peer if node not in nodes[:3] else nodes[0].peer, 0.0)
    while not all(node.is_active for node in nodes) or leaf_set_errors(nodes):
        assert simulator.now < 60.0, f"seed {seed}"
        simulator.run(simulator.now + 1.0)
    cost = sum(node.statistics().join_messages for node in nodes) / size
    print(f"seed {seed}: {size} nodes within {simulator.now} s, {cost:.0f} messages a join")
    assert cost <= 3 * 16 * log(size, 16)
    check_all(nodes)


@pytest.mark.parametrize("loss", seeds(0.1, slow=[0.3]))
@Seed
def test_joins_survive_loss(seed: int, loss: float) -> None:
    source = random.Random(seed)
    simulator = Simulator(source, loss=loss)
    nodes = [simulator.add_node() for _ in range(60)]
    nodes[0].start(0.0)
    for node in nodes[1:]:
        node.join(nodes[0].peer, simulator.now)
        simulator.run(simulator.now + 0.1)
    while (leaf_set_errors(nodes) or not all(node.is_active for node in nodes)) and simulator.now < 120.0:
        simulator.run(simulator.now + 1.0)
    print(f"seed {seed}, loss {loss}: converged within {simulator.now} s, lost {simulator.lost}")
    assert simulator.lost > 0
    assert leaf_set_errors(nodes) == []
    assert simulator.now < 120.0


def count_roots(nodes: list[Node], keys: list[int], worst: list[int]) -> Callable[[], bool]:
    def look() -> bool:
        worst[0] = max(worst[0], *(sum(node.is_root(key) for node in nodes) for key in keys))
        return False

    return look


@pytest.mark.parametrize(
    ("pause_s", "loss"), seeds((0.02, 0.2), slow=[(0.0, 0.0), (1.0, 0.2), (0.0, 0.2), (0.02, 0.0), (1.0, 0.0)])
)
@Seed
def test_no_key_ever_has_two_roots_while_nodes_join(seed: int, pause_s: float, loss: float) -> None:
    source = random.Random(seed)
    simulator = Simulator(source, loss=loss, latency=UniformLatency(source, 0.001, 0.2))
    nodes = [simulator.add_node()]
    nodes[0].start(0.0)
    keys = [source.getrandbits(128) for _ in range(8)]
    worst = [0]
    for _ in range(20):
        node = simulator.add_node()
        node.join(source.choice(nodes).peer, simulator.now)
        nodes.append(node)
        simulator.run(simulator.now + pause_s, stop=count_roots(nodes, keys, worst))
    simulator.run(simulator.now + 5.0, stop=count_roots(nodes, keys, worst))
    assert worst == [1], f"seed {seed}: {worst[0]} roots at one moment"


@pytest.mark.parametrize("model", [UniformLatency, PlaneLatency])
def test_latencies_are_positive_and_bounded(model: Callable[[RandomSource], Latency]) -> None:
    source = random.Random(1)
    latency = model(source)
    nodes = [Simulator(source).add_node().peer for _ in range(10)]
    delays = [latency.delay_s(a, b) for a in nodes for b in nodes for _ in range(3)]
    assert 0.0 < min(delays) < max(delays) < 0.1


def test_in_the_plane_a_link_keeps_its_length() -> None:
    source = random.Random(1)
    latency = PlaneLatency(source)
    a, b = (Simulator(source).add_node().peer for _ in range(2))
    there = [latency.delay_s(a, b) for _ in range(20)] + [latency.delay_s(b, a) for _ in range(20)]
    assert max(there) <= 1.1 * min(there)


def test_ids_can_be_given_once() -> None:
    simulator = Simulator(random.Random(1))
    assert simulator.add_node(5).peer.node_id == 5
    with pytest.raises(ValueError, match="already a node"):
        simulator.add_node(5)


def test_a_matrix_gives_each_place_its_delays(tmp_path: Path) -> None:
    path = tmp_path / "delays.csv"
    path.write_text("# places: one, two, three\n0, 10, 20\n\n30, 0, 40  # from two\n50,60,0\n")
    source = random.Random(1)
    latency = MatrixLatency.from_file(path, source)
    peers = [Simulator(source).add_node().peer for _ in range(4)]
    delays = [[latency.delay_s(a, b) * 1000 for b in peers] for a in peers]
    expected = [[0.1, 10, 20, 0.1], [30, 0.1, 40, 30], [50, 60, 0.1, 50], [0.1, 10, 20, 0.1]]
    for row, expected_row in zip(delays, expected, strict=True):
        assert all(want <= delay <= 1.1 * want for delay, want in zip(row, expected_row, strict=True))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "1 to 4096 lines of delays, not 0"),
        (b"# nothing\n\n", "1 to 4096 lines"),
        (b"0 1\n", "line 1: 2 delays, while there are 1 places"),
        (b"# x\n0 1\n0\n", "line 3: 1 delays, while there are 2 places"),
        (b"0 x\n1 0", "line 1: 'x' is not a number of milliseconds"),
        (b"0 1\n-1 0", "line 2: '-1' is not"),
        (b"0 nan\n1 0", "line 1: 'nan' is not"),
        (b"0 1\n1e999 0", "line 2: '1e999' is not"),
        (b"\xff\xfe", "can't decode"),
    ],
)
def test_what_is_no_matrix_is_told_with_its_file_and_line(tmp_path: Path, data: bytes, reason: str) -> None:
    path = tmp_path / "delays.csv"
    path.write_bytes(data)
    with pytest.raises(LatencyMatrixError, match=reason) as raised:
        MatrixLatency.from_file(path, random.Random(1))
    assert str(path) in str(raised.value)
