"""The ways in which agents, owners and a master compute windows together, with the code that jobs run: counting in
compressed buffer trees, sending encoded frames, merging by consolidators, and key groups that move in between.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from time import process_time

import numpy as np
import numpy.typing as npt
import polars as pl

from agent.placement import Counting, Merging, Sending, Way
from cbt import Aggregate, CompressedBufferTree, Key, Layout, decode_frame, encode_frame
from cbt.algebra.partitions import partitions_of
from cbt.windows import Consolidator, PanePlan, WindowSize
from cbt.windows.sequence import in_pane

KEYS = [Key("k", "string")]
AGGREGATES = [Aggregate("v", "count", None, "any"), Aggregate("s", "sum", "n", "number")]
LAYOUT = Layout(KEYS, AGGREGATES)
GROUPS, OWNERS = 64, 4
BYTES_MAX = 1 << 30
Ints = npt.NDArray[np.int64]
WindowKey = tuple[int, WindowSize]
"""A window's start, and its size."""
Moves = dict[int, list[int]]
"""Pane before which key groups move to the next owner."""


@dataclass(frozen=True)
class Load:
    """Rows of each agent by pane, windows, and moves of groups between panes."""

    sizes: tuple[WindowSize, ...]
    agents: list[dict[int, pl.DataFrame]]
    moves: Moves

    @property
    def panes(self) -> list[int]:
        return sorted(self.agents[0])

    @property
    def pane_ms(self) -> int:
        return PanePlan(self.sizes).pane_ms


@dataclass
class Spent:
    """Processor time by kind of work: (frames, rows, seconds) of each step. `windows`: rows of each, and their sum."""

    steps: dict[str, list[tuple[float, float, float]]] = field(default_factory=lambda: defaultdict(list))
    windows: dict[WindowKey, tuple[int, float]] = field(default_factory=dict)

    def charge(self, work: str, began: float, frames: float, rows: float) -> None:
        """Charges the processor time since a step began."""
        self.steps[work].append((frames, rows, process_time() - began))

    def sums(self, work: str) -> tuple[float, float, float]:
        """Frames, rows and seconds of a kind of work."""
        frames, rows, seconds = np.array(self.steps[work]).reshape(-1, 3).sum(axis=0).tolist()
        return frames, rows, seconds

    @property
    def total(self) -> float:
        """Seconds of all work."""
        return sum(self.sums(work)[2] for work in tuple(self.steps))


def run(load: Load, way: Way) -> Spent:
    """Computes all windows in one way, and charges each step of it."""
    spent = Spent()
    owners = _Owners(load, way, spent)
    agents = [
        _WindowCounter(load, spent) if way.counting is Counting.WINDOWS else _PaneCounter(load, way, spent)
        for _ in load.agents
    ]
    for pane in load.panes:
        owners.move(pane, load.moves.get(pane, []))
        sent = [list(agent.count(pane, rows[pane])) for agent, rows in zip(agents, load.agents, strict=True)]
        for pieces in zip(*sent, strict=True):
            owners.take(pieces[0][0], [frame for _, frame in pieces], pane + load.pane_ms)
    return spent


Piece = tuple[WindowKey, pl.DataFrame]


class _PaneCounter:
    """Counts rows into the state of their pane, and sends it at once or at the next edge of a window."""

    def __init__(self, load: Load, way: Way, spent: Spent) -> None:
        self._tree = CompressedBufferTree(KEYS, AGGREGATES)
        self._load, self._way, self._spent = load, way, spent
        self._held: list[pl.DataFrame] = []

    def count(self, pane: int, rows: pl.DataFrame) -> Iterator[Piece]:
        """Yields what is to be sent once a pane is over, with the pane at which its time begins."""
        began = process_time()
        self._tree.insert(rows.with_columns(pane=pl.lit(pane, pl.Int64)))
        self._held.append(flushed(self._tree, pane))
        self._spent.charge("count", began, 1, rows.height)
        end = pane + self._load.pane_ms
        if self._way.sending is Sending.PANES or _is_edge(self._load.sizes, end):
            start = end - len(self._held) * self._load.pane_ms
            began = process_time()
            state = _merged(self._held, start)
            self._spent.charge("hold", began, len(self._held), sum(frame.height for frame in self._held))
            self._held = []
            yield (start, self._load.sizes[0]), state


class _WindowCounter:
    """Counts rows into the state of each window that they are in, and sends it when the window is over."""

    def __init__(self, load: Load, spent: Spent) -> None:
        self._trees = {size: CompressedBufferTree(KEYS, AGGREGATES) for size in load.sizes}
        self._load, self._spent = load, spent

    def count(self, pane: int, rows: pl.DataFrame) -> Iterator[Piece]:
        """Yields the windows that are over with a pane; those that began before the first pane are left out."""
        for size, tree in self._trees.items():
            starts = [start for start in size.containing(pane) if start >= self._load.panes[0]]
            began = process_time()
            for start in starts:
                tree.insert(rows.with_columns(pane=pl.lit(start, pl.Int64)))
            is_over = bool(starts) and starts[0] + size.size_ms == pane + self._load.pane_ms
            state = flushed(tree, starts[0]) if is_over else None
            self._spent.charge("count", began, is_over, rows.height * len(starts))
            if state is not None:
                yield (starts[0], size), state


class _Owners:
    """Owners of key groups, and the master; owner 0 is the master's agent."""

    def __init__(self, load: Load, way: Way, spent: Spent) -> None:
        self._load, self._way, self._spent = load, way, spent
        self._owners = np.arange(GROUPS) % OWNERS
        self._moved = np.full(GROUPS, -1)
        """The pane before which each group has moved last."""
        roots = 1 if way.merging is Merging.MASTER else OWNERS
        self._consolidators = [Consolidator(LAYOUT, load.sizes) for _ in range(roots)]

    def move(self, pane: int, groups: list[int]) -> None:
        """Gives groups to the next owner, from this pane on."""
        self._owners[groups] = (self._owners[groups] + 1) % OWNERS
        self._moved[groups] = pane

    def take(self, key: WindowKey, frames: list[pl.DataFrame], end: int) -> None:
        """Takes the states of all agents for one stretch of time."""
        rows = sum(frame.height for frame in frames)
        began = process_time()
        cut = list(map(self._by_owner, frames))
        self._spent.charge("cut", began, len(frames) * OWNERS, rows)
        began = process_time()
        parts = [[_over_the_wire(one) for one in own] for own in zip(*cut, strict=True)]
        self._spent.charge("send", began, len(frames) * OWNERS, rows)
        began = process_time()
        received = [LAYOUT.combine(own) for own in parts]
        self._spent.charge("join", began, len(frames) * OWNERS, rows)
        if self._way.merging is Merging.MASTER:
            began = process_time()
            sent = [_over_the_wire(frame) for frame in received[1:]]
            received = [_merged([*received[:1], *sent], key[0])]
            self._spent.charge("relay", began, len(sent), sum(frame.height for frame in sent))
        if self._way.counting is Counting.WINDOWS:
            self._show(key, received)
        else:
            self._consolidate(key[0], received, end)

    def _by_owner(self, frame: pl.DataFrame) -> list[pl.DataFrame]:
        owners = self._owners[_groups(frame)]
        return [frame.filter(pl.Series(owners == owner)) for owner in range(OWNERS)]

    def _consolidate(self, start: int, received: list[pl.DataFrame], end: int) -> None:
        made: dict[WindowKey, list[pl.DataFrame]] = {}
        for root, (consolidator, frame) in enumerate(zip(self._consolidators, received, strict=True)):
            began, before, rows = process_time(), consolidator.done.inputs, frame.height
            for window in [*consolidator.add(start, frame), *consolidator.advance(end)]:
                rows += window.frame.height
                empty = [LAYOUT.empty()] * len(received)
                made.setdefault((window.start_ms, window.size), empty)[root] = window.frame
            self._spent.charge("merge", began, 1 + consolidator.done.inputs - before, rows)
        for key, frames in made.items():
            if key[0] >= self._load.panes[0]:
                self._show(key, self._handed_over(key[0], frames))

    def _handed_over(self, start: int, frames: list[pl.DataFrame]) -> list[pl.DataFrame]:
        """A window's parts, once what each owner has of groups that have moved since is with their owners."""
        moved = self._moved > start
        if self._way.merging is Merging.MASTER or not moved.any():
            return frames
        began = process_time()
        parts = [[frame] for frame in frames]
        sent = rows = 0
        for owner, frame in enumerate(frames):
            groups = _groups(frame)
            foreign = moved[groups] & (self._owners[groups] != owner)
            parts[owner] = [frame.filter(pl.Series(~foreign)), *parts[owner][1:]]
            for other in np.unique(self._owners[groups[foreign]]).tolist():
                parts[other].append(_over_the_wire(frame.filter(pl.Series(foreign & (self._owners[groups] == other)))))
                sent, rows = sent + 1, rows + parts[other][-1].height
        whole = [LAYOUT.combine(own) if len(own) > 1 else own[0] for own in parts]
        self._spent.charge("move", began, sent, rows)
        return whole

    def _show(self, key: WindowKey, frames: list[pl.DataFrame]) -> None:
        """Sends what owners show of a window to the master, where it is shown."""
        began = process_time()
        first, *others = (LAYOUT.lower(frame) for frame in frames)
        shown = process_time() - began
        others = [decode_frame(encode_frame(one), one.schema, bytes_max=BYTES_MAX) for one in others]
        self._spent.charge("ship", began + shown, len(others), sum(one.height for one in others))
        began = process_time() - shown
        rows = pl.concat([first, *others])
        self._spent.charge("show", began, len(frames), rows.height)
        self._spent.windows[key] = (rows.height, float(rows["v"].sum()))


def _groups(frame: pl.DataFrame) -> Ints:
    """The key group of each row."""
    return partitions_of(frame["hash"].to_numpy(), GROUPS).astype(np.int64)


def flushed(tree: CompressedBufferTree, pane: int) -> pl.DataFrame:
    """The state of a pane, which leaves the tree."""
    frames = list(tree.flush(pane))
    tree.empty(pane)
    return pl.concat(frames) if frames else LAYOUT.empty()


def _merged(frames: list[pl.DataFrame], start: int) -> pl.DataFrame:
    """States in one, as that of the pane in which their time begins."""
    if len(frames) == 1:
        return frames[0]
    return LAYOUT.combine([in_pane(frame, start) for frame in frames])


def _over_the_wire(frame: pl.DataFrame) -> pl.DataFrame:
    return decode_frame(encode_frame(frame), LAYOUT.schema, bytes_max=BYTES_MAX)


def _is_edge(sizes: Iterable[WindowSize], time: int) -> bool:
    return any(after % size.slide_ms == 0 for size in sizes for after in (time, time - size.size_ms))
