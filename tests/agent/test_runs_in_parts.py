"""Runs larger than a message go up in parts: whatever happens to parts, the answer is that of a run that came whole."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lives import begin_some, check, crash_interior, crash_master, cut, follow_elsewhere, happen, stall
from memory_fleet import Fleet, events
from seeds import seeds
from simulated_fleet import SimulatedFleet
from test_trees import told

import cbt
from agent import Agent, WindowResult
from agent.runtime.function.spill import SpillArea
from agent.runtime.job.local_jobs import LocalJobs
from agent.runtime.messages.jobs import CODEC, Snapshot, SnapshotAck, SnapshotPart, SnapshotPartAck
from agent.runtime.model.epoch import JobEpoch
from agent.runtime.model.panes import LOSSES_MAX, merged_losses
from agent.runtime.reduce.parts import (
    ASSEMBLY_IDLE_S,
    DUPLICATES,
    TIMEOUTS_MAX,
    OutgoingRun,
    RunAssembler,
    RunLimits,
)
from agent.runtime.reduce.retransmit import AckLatency, RetransmitBuffer
from agent.runtime.reduce.snapshot import reason_too_large
from overlay import Id, Node, WireError
from overlay.core.outbox import CODEC as OVERLAY
from overlay.wire.messages import Direct

TINY = RunLimits(whole_bytes=400, part_bytes=200, window_parts=3)
EPOCH = JobEpoch(1, 1, Id(1))
GROUPED = "SELECT product, COUNT(*) AS n, COUNT(DISTINCT price) AS d FROM web GROUP BY product"
NAMES = [f"product-{number}" for number in range(60)]


def snapshot(state: bytes, upto: int = 10, app: int = 7) -> Snapshot:
    return Snapshot(Id(app), EPOCH, 1, 0, upto, b"\x01", state, [(5, 1, 1, 0, 0, 0, 0)])


# The assembly.


@pytest.fixture(scope="module")
def area(tmp_path_factory: pytest.TempPathFactory) -> SpillArea:
    return SpillArea(1, tmp_path_factory.mktemp("spill"))


@given(
    state=st.binary(min_size=1, max_size=3000),
    part_bytes=st.integers(30, 400),
    window=st.integers(1, 5),
    seed=st.integers(0, 2**32),
    memory=st.integers(0, 3000),
)
def test_whatever_happens_to_parts_the_snapshot_comes_out_as_it_was_and_once(
    area: SpillArea, state: bytes, part_bytes: int, window: int, seed: int, memory: int
) -> None:
    """Parts and acknowledgements get lost, come twice and overtake each other, and the receiver is restarted."""

    def new_assembler() -> RunAssembler:
        assembler = RunAssembler(area)
        assembler.limits = RunLimits(assembly_memory_bytes=memory)
        return assembler

    limits, source = RunLimits(part_bytes=part_bytes, window_parts=window), random.Random(seed)
    sent = snapshot(state)
    outgoing, assembler, now = OutgoingRun(sent, limits), new_assembler(), 0.0
    on_the_way: list[SnapshotPart] = []
    acknowledgements: list[int] = []
    found: list[Any] = []
    restarts = source.randint(0, 2)
    for _ in range(20_000):
        now += 0.1
        due = outgoing.due(now, 1.0)
        assert len(due) <= window, "what is on its way is bounded"
        on_the_way += due
        if on_the_way:
            part = on_the_way.pop(source.randrange(len(on_the_way)))
            fate = source.random()
            if fate < 0.15:
                on_the_way.append(part)
            if fate < 0.85 and (arrived := assembler.add("child", part, now)) is not None:
                if not isinstance(arrived, int):
                    found.append(CODEC.decode(bytes(arrived)))
                    break
                acknowledgements.append(arrived)
        if restarts and source.random() < 0.02:
            assembler, restarts = new_assembler(), restarts - 1
        if acknowledgements and source.random() < 0.8:
            upto = acknowledgements.pop(source.randrange(len(acknowledgements)))
            if source.random() < 0.9:
                on_the_way += outgoing.acknowledged(upto, now)
    assert found == [sent]
    assert len(assembler) == 0


def part(digest: int, offset: int, data: bytes, size: int = 100, app: int = 7) -> SnapshotPart:
    return SnapshotPart(Id(app), EPOCH, 0, bytes([digest]) * 16, size, offset, data)


@pytest.mark.parametrize(("size", "fits"), [(100, True), (101, False), (1000, False)])
def test_room_for_the_whole_is_set_aside_or_the_part_is_asked_for_again(size: int, fits: bool) -> None:
    assembler = RunAssembler()
    assembler.limits = RunLimits(assembly_bytes=150)
    assert assembler.add("first", part(1, 0, b"x" * 10, size=50), 0.0) == 10
    assert (assembler.add("second", part(2, 0, b"x" * 10, size), 0.0) == 10) is fits
    assert assembler.used_bytes <= 150
    assert assembler.add("first", part(1, 10, b"x" * 40, size=50), 0.0) == bytearray(b"x" * 50)
    assert (assembler.add("second", part(2, 10, b"x" * 10, size), 0.0) is not None) is (size <= 150)


def files_in(directory: Path) -> list[bytes]:
    return sorted(path.read_bytes() for path in directory.rglob("*") if path.is_file())


@pytest.mark.parametrize(("size", "spilled"), [(90, 0), (100, 1), (1000, 10)])
def test_what_does_not_fit_the_memory_is_on_disk_until_the_last_part(tmp_path: Path, size: int, spilled: int) -> None:
    assembler, whole = RunAssembler(SpillArea(1, tmp_path)), random.Random(size).randbytes(size + 1)
    assembler.limits = RunLimits(assembly_memory_bytes=100)
    assert assembler.add("other", part(2, 0, b"y" * 10, size=20), 0.0) == 10
    for offset in range(0, size, 10):
        piece = whole[offset : min(offset + 10, size)]
        assert assembler.add("child", part(1, offset, piece, size=size + 1), 0.0) == offset + len(piece)
    assert len(files_in(tmp_path)) == spilled
    assert whole.startswith(b"".join(sorted(files_in(tmp_path), key=whole.index)))
    assert assembler.add("child", part(1, size, whole[size:], size=size + 1), 0.0) == whole
    assert files_in(tmp_path) == []
    assert assembler.add("other", part(2, 10, b"y" * 10, size=20), 0.0) == b"y" * 20


@pytest.mark.parametrize("fails", ["to write", "to read", "for want of room"])
def test_a_disk_that_fails_costs_memory_and_no_run(tmp_path: Path, fails: str) -> None:
    told: list[str] = []
    quota = cbt.DiskQuota(10 if fails == "for want of room" else 1 << 20)
    spill = SpillArea(1, tmp_path, lambda _what, why: told.append(why), quota)
    assembler = RunAssembler(spill)
    assembler.limits = RunLimits(assembly_memory_bytes=15)
    if fails == "to write":
        tmp_path.rmdir()
    for attempt in range(2):
        arrived = [assembler.add("child", part(1, offset, b"x" * 10), 0.0) for offset in range(0, 90, 10)]
        assert arrived == list(range(10, 100, 10))
        if fails == "to read" and attempt == 0:
            for path in tmp_path.rglob("*"):
                path.is_file() and path.write_bytes(b"other")
            assert assembler.add("child", part(1, 90, b"x" * 10), 0.0) is None, "it is asked for again"
            continue
        assert assembler.add("child", part(1, 90, b"x" * 10), 0.0) == b"x" * 100
    assert len(told) == 1
    assert spill.unwritten == 1
    assert assembler.used_bytes == 0


def test_a_sender_that_falls_silent_gives_its_room_back() -> None:
    assembler = RunAssembler()
    assembler.limits = RunLimits(assembly_bytes=100)
    assert assembler.add("first", part(1, 0, b"x"), 0.0) == 1
    assembler.expire(ASSEMBLY_IDLE_S)
    assert assembler.add("second", part(2, 0, b"x"), ASSEMBLY_IDLE_S) is None
    assembler.expire(ASSEMBLY_IDLE_S + 0.1)
    assert assembler.add("second", part(2, 0, b"x"), ASSEMBLY_IDLE_S) == 1
    assembler.forget(Id(7))
    assert assembler.used_bytes == 0


def test_another_snapshot_of_the_same_sender_takes_the_place_of_the_first() -> None:
    assembler = RunAssembler()
    assert assembler.add("child", part(1, 0, b"x" * 50), 0.0) == 50
    assert assembler.add("child", part(2, 50, b"y" * 50), 0.0) == 0
    assert assembler.add("child", part(2, 0, b"z" * 50), 0.0) == bytearray(b"z" * 50 + b"y" * 50)


@pytest.mark.parametrize("bad", [part(1, 0, b""), part(1, 60, b"x" * 41), part(1, 0, b"x" * 101), part(1, 2**62, b"x")])
def test_parts_that_fit_nothing_are_refused(bad: SnapshotPart) -> None:
    assembler = RunAssembler()
    assembler.add("child", part(1, 0, b"x" * 10), 0.0)
    assert assembler.add("child", bad, 0.0) is None
    assert assembler.refused == 1


def test_parts_that_overlap_take_no_more_room_than_was_set_aside() -> None:
    assembler = RunAssembler()
    taken = [assembler.add("child", part(1, offset, b"x" * 50), 0.0) for offset in range(1, 51)]
    assert sum(one is not None for one in taken) <= 2


def test_a_silent_receiver_is_asked_with_one_part_ever_more_rarely() -> None:
    outgoing = OutgoingRun(snapshot(bytes(2000)), RunLimits(part_bytes=100, window_parts=4))
    assert len(outgoing.due(0.0, 1.0)) == 4
    times = [tenth / 10 for tenth in range(1, 600) for _ in outgoing.due(tenth / 10, 1.0)]
    assert times[:4] == [1.0, 3.0, 7.0, 15.0]
    assert times[4] - times[3] == TIMEOUTS_MAX


def test_a_lost_part_is_sent_again_before_any_time_is_up() -> None:
    outgoing = OutgoingRun(snapshot(bytes(2000)), RunLimits(part_bytes=100, window_parts=8))
    outgoing.due(0.0, 1.0)
    again = [outgoing.acknowledged(0, 0.1) for _ in range(2 * DUPLICATES)]
    assert [[one.offset for one in parts] for parts in again if parts] == [[0]]


# Keeping.


def test_what_follows_a_run_in_parts_waits_for_it() -> None:
    """A later pane would tell the parent that all earlier ones are over."""
    buffer = RetransmitBuffer(AckLatency(), 1, TINY)
    for upto, state in ((5, b"x"), (10, bytes(5000)), (20, b"x")):
        buffer.add(snapshot(state, upto))
    first, *parts = buffer.due(0.0)
    assert isinstance(first, Snapshot)
    assert [one.offset for one in parts if isinstance(one, SnapshotPart)] == [0, 200, 400]
    buffer.acknowledged(0, 5, b"\x01", 0.0)
    assert buffer.due(0.1) == []
    assert buffer.acknowledged(0, 10, b"\x01", 0.1), "something has waited for it"
    (last,) = buffer.due(0.1)
    assert isinstance(last, Snapshot)
    assert last.upto == 20


def test_a_new_parent_gets_all_parts_of_a_detached_run() -> None:
    buffer = RetransmitBuffer(AckLatency(), 1, TINY)
    buffer.add(snapshot(bytes(500)))
    (before, *_) = buffer.due(0.0)
    assert isinstance(before, SnapshotPart)
    buffer.part_acknowledged(before.digest, 200, 0.0)
    buffer.parent_changed()
    assembler, whole = RunAssembler(), None
    parts = deque(buffer.due(10.0))
    while not isinstance(whole, bytearray):
        one = parts.popleft()
        assert isinstance(one, SnapshotPart)
        assert one.digest != before.digest
        whole = assembler.add("child", one, 10.0)
        if isinstance(whole, int):
            buffer.part_acknowledged(one.digest, whole, 10.0)
        parts += buffer.due_parts(10.0)
    arrived = CODEC.decode(bytes(whole))
    assert isinstance(arrived, Snapshot)
    assert arrived.detached


@pytest.mark.parametrize(("number", "full"), [(2, False), (3, True), (20, True)])
def test_nothing_that_the_parent_lacks_is_dropped_for_want_of_room(number: int, full: bool) -> None:
    size = snapshot(bytes(1000)).size
    buffer = RetransmitBuffer(AckLatency(), 1, RunLimits(kept_bytes=2 * size))
    for upto in range(1, number + 1):
        buffer.add(snapshot(bytes(1000), upto))
    assert buffer.is_full is full
    assert len(buffer.due(0.0)) == number
    for upto in range(1, number + 1):
        buffer.acknowledged(0, upto, b"\x01", 0.0)
    assert not buffer.is_full
    buffer.add(snapshot(bytes(1000), number + 1))
    assert len(buffer) == 2, "what the parent has makes room"


# Fleets.


class PartedFleet(Fleet):
    """Agents whose runs go in tiny parts."""

    def new_agent(self, name: str, node: Node, streams: Any) -> Agent:
        agent = super().new_agent(name, node, streams)
        agent.jobs.assembler.limits = TINY
        return agent


def results(fleet: Fleet, sql: str = GROUPED, **options: Any) -> list[WindowResult]:
    fleet.submit(sql, **options)
    for number in range(len(fleet.agents)):
        for at_ms in (0, 700, 2500):
            products = NAMES[number % 3 :: 1 + number % 2]
            prices = [float((number + place) % 7) for place in range(len(products))]
            fleet.insert(number, events(*products, None, at_ms=at_ms, price=[*prices, 1.5]))
    for agent in fleet.agents:
        for feed in agent.ingest.feeds():
            agent.ingest.end_of_feed(feed.key, fleet.now, fleet.wall_ms)
    for _ in range(400):
        if any(one.window_end is None or one.window_end.endswith("03Z") for one in fleet.results):
            break
        fleet.settle()
        fleet.wait(0.5)
    return fleet.results


@pytest.mark.parametrize("size", seeds(2, slow=[5, 9]))
@pytest.mark.parametrize("sql", [GROUPED, f"{GROUPED} WINDOWING 1 SECOND", f"{GROUPED} TREES 4"])
def test_a_fleet_whose_runs_go_in_parts_answers_the_same(size: int, sql: str) -> None:
    parted = PartedFleet(size)
    assert told(results(parted, sql)) == told(results(Fleet(size), sql))
    assert parted.results[0].contributors == size
    assert all(not agent.jobs.assembler.used_bytes for agent in parted.agents)


Meddle = Callable[[random.Random, bytes], list[bytes]]


def lossy(source: random.Random, data: bytes) -> list[bytes]:
    return [] if source.random() < 0.1 else [data]


def doubling(source: random.Random, data: bytes) -> list[bytes]:
    return [data, data] if source.random() < 0.3 else [data]


@pytest.mark.parametrize("meddle", [lossy, doubling])
@pytest.mark.parametrize("seed", [1, 2])
def test_lost_and_repeated_parts_change_nothing(meddle: Meddle, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = told(results(Fleet(4)))
    fleet, source = PartedFleet(4), random.Random(seed)
    receive = Node.receive
    parts = 0

    def meddled(node: Node, sender: Any, data: bytes, now: float) -> None:
        nonlocal parts
        arriving = [data]
        if _is_of_parts(data):
            parts += 1
            arriving = meddle(source, data)
        for one in arriving:
            receive(node, sender, one, now)

    monkeypatch.setattr(Node, "receive", meddled)
    assert told(results(fleet)) == plain
    assert parts > 20


def _is_of_parts(data: bytes) -> bool:
    try:
        message = OVERLAY.decode(data)
        inner = CODEC.decode(message.payload) if isinstance(message, Direct) else None
    except WireError:
        return False
    return isinstance(inner, (SnapshotPart, SnapshotPartAck, SnapshotAck))


def limited(run_bytes: int, size: int = 2) -> PartedFleet:
    fleet = PartedFleet(size)
    for agent in fleet.agents:
        agent.jobs.assembler.limits = replace(TINY, run_bytes=run_bytes)
    return fleet


@pytest.fixture
def largest(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], int]:
    """The bytes of the largest run that goes up for a query."""
    sizes: list[int] = []
    add = RetransmitBuffer.add

    def noted(buffer: RetransmitBuffer, one: Snapshot) -> None:
        sizes.append(one.size)
        add(buffer, one)

    def of(sql: str) -> int:
        with monkeypatch.context() as patched:
            patched.setattr(RetransmitBuffer, "add", noted)
            results(PartedFleet(2), sql)
        return max(sizes)

    return of


@pytest.mark.parametrize(("share", "less", "is_lost"), [(1, 0, False), (1, 1, True), (10, 0, True)])
def test_a_run_at_its_limit_is_passed_on_and_one_beyond_is_named_with_the_reason(
    share: int, less: int, is_lost: bool, largest: Callable[[str], int]
) -> None:
    (result,) = results(limited(largest(GROUPED) // share - less))
    assert bool(result.missing) is is_lost
    assert list(result.reasons) == result.missing
    assert all(reason.startswith("run too large: ") for reason in result.reasons.values())
    assert ('"reasons"' in result.to_json()) is is_lost


@pytest.mark.parametrize(("share", "less", "is_lost"), [(1, 0, False), (1, 1, True), (10, 0, True)])
def test_a_run_at_its_limit_uncompressed_is_passed_on_and_one_beyond_is_not(
    share: int, less: int, is_lost: bool
) -> None:
    state = cbt.encode_frame(pl.DataFrame({"pane": [0] * 500, "hash": range(500)}))
    message = snapshot(state)
    limits = RunLimits(frame_bytes=cbt.frame_bytes(state) // share - less)
    assert (reason_too_large(message, limits) is not None) is is_lost


def test_so_many_reasons_are_told_apart() -> None:
    for number in (LOSSES_MAX, LOSSES_MAX + 1, 10 * LOSSES_MAX):
        merged = merged_losses([((1 << agent, f"reason {agent:04}"),) for agent in range(number)])
        assert len(merged) == LOSSES_MAX
        assert sum(agents for agents, _ in merged) == (1 << number) - 1, "nobody is forgotten"


def test_a_run_of_several_panes_that_is_too_large_goes_pane_by_pane(largest: Callable[[str], int]) -> None:
    sql = f"{GROUPED} WINDOWING 1 SECOND"
    found = results(limited(largest(sql) - 1), sql)
    assert [(one.contributors, one.reasons) for one in found] == [(2, {})] * len(found)


def test_windows_without_any_content_are_there_and_say_why() -> None:
    """Also where nobody's run reaches the master: its agent has none of the stream."""
    fleet = PartedFleet(4, bystanders=2)
    for agent in fleet.agents:
        agent.jobs.assembler.limits = replace(TINY, run_bytes=10)
    fleet.submit(f"{GROUPED} WINDOWING 1 SECOND")
    for number in range(2):
        fleet.insert(number, events("a", "b", at_ms=500, price=[1.0, 2.0]))
    fleet.finish()
    fleet.wait_long(5.0)
    found = fleet.results
    lost = {name for one in found for name in one.reasons}
    assert len(found) == 1
    assert lost == set(found[0].missing)
    assert lost


# Lives.

ACTS = (crash_interior, crash_master, stall, cut)


def tiny(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """All agents of simulated fleets send tiny parts; counts those that are put together."""
    put_together: list[int] = []
    made = SimulatedFleet._agent
    whole = LocalJobs._whole

    def new(fleet: SimulatedFleet, *about: Any) -> Agent:
        agent = made(fleet, *about)
        agent.jobs.assembler.limits = replace(TINY, part_bytes=300)
        return agent

    def noted(jobs: LocalJobs, *about: Any) -> bool:
        put_together.append(1)
        return whole(jobs, *about)

    monkeypatch.setattr(SimulatedFleet, "_agent", new)
    monkeypatch.setattr(LocalJobs, "_whole", noted)
    return put_together


@pytest.mark.parametrize("seed", seeds(1, slow=range(2, 40)))
def test_lives_of_fleets_whose_runs_go_in_parts(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    put_together = tiny(monkeypatch)
    source = random.Random(seed)
    life = begin_some(seed, source, trees=source.choice((1, 1, 3)))
    follow_elsewhere(life)
    happen(life, [source.choice(ACTS) for _ in range(source.randint(1, 3))])
    check(life, silence_max_s=40.0)
    assert len(put_together) > 10
