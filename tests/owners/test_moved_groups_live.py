"""Eight real agents under load whose key groups move, and who are killed in the middle of it: every window is there
once, with all that the logs have of those who are in it."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise, product
from pathlib import Path

import pytest
from agent_process import eventually
from elf_process import elf
from known_logs import KnownLogs
from seeds import seeds
from watching import Came, Watch, milliseconds, patience, submit

from agent.control.messages import JobPlacement
from agent.runtime.model.fields import Mode
from elf.client import ClientError
from elf.client.sync_client import SyncClient
from elf.demo.agents.agents import AgentFleet, AgentSpec, StreamFiles
from overlay import app_id, tree_id

pytestmark = pytest.mark.live
APP = "keys"
NAMES = [f"agent-{number}" for number in range(1, 9)]
MASTER, OLD, NEW, ASKED = NAMES[0], NAMES[1], NAMES[2], NAMES[7]
"""The agents whose ids are the keys of the job's trees, and the one that is asked."""
MODES: tuple[Mode, ...] = ("instant", "smooth", "disruptive")
QUERY = (
    "SELECT key, COUNT(*) AS events, SUM(n) AS total FROM web GROUP BY key "
    "WINDOWING 4 SECONDS EVERY 1 SECOND GRACE 1 SECOND TREES 3"
)
SLIDE_MS, SIZE_MS = 1000, 4000
TICK_S, PER_TICK, KEYS = 0.05, 20, 400
"""Each log gets 400 lines a second, of as many keys."""
MOVED = 12
"""Number of groups that move at a time."""
TRIES = 4
"""Upper bound on moves until one is in the mode that was asked for: owners may have no time to answer."""
SILENCE_S = 15.0
"""Upper bound on the time between two windows, whoever is killed: the longest of 18 was 6.4 s, and 9.6 s where two
cores had twenty times their work."""


class KeyLogs(KnownLogs):
    """Logs of lines with keys, of which it is known how many each second has of each key."""

    def __init__(self, folder: Path) -> None:
        self._seconds: dict[tuple[str, int], Counter[str]] = {}
        super().__init__(folder, NAMES, tick_s=TICK_S)

    def counted(self, names: set[str], start_ms: int, end_ms: int) -> Counter[str]:
        """The lines of each key in the logs of these agents."""
        found: Counter[str] = Counter()
        for name in names:
            for second in range(start_ms // 1000, end_ms // 1000):
                found += self._seconds.get((name, second), Counter())
        return found

    def _write(self) -> None:
        chance = random.Random(1)
        while not self._stop.wait(self._tick_s):
            for name, file in self._files.items():
                now_ms = time.time_ns() // 1_000_000
                moment = datetime.fromtimestamp(now_ms / 1000, UTC).isoformat(timespec="milliseconds")
                keys = [f"key-{chance.randrange(KEYS)}" for _ in range(PER_TICK)]
                self._seconds.setdefault((name, now_ms // 1000), Counter()).update(keys)
                file.write("".join(json.dumps({"time": moment, "key": key, "n": 1}) + "\n" for key in keys).encode())


@dataclass(frozen=True)
class Moving:
    """Groups that move from one agent to another, the mode in which they do, and the start of the first pane that is
    with the new one."""

    groups: set[int]
    old: str
    new: str
    mode: str
    first_ms: int


@dataclass(frozen=True)
class Stage:
    """The fleet, its logs, and who follows the job."""

    fleet: AgentFleet
    logs: KeyLogs
    watch: Watch

    def client(self) -> SyncClient:
        return SyncClient(str(self.fleet.socket(ASKED)), 60.0)

    def placement(self) -> JobPlacement:
        """Answers what the master says, once it answers."""
        found: list[JobPlacement] = []

        def is_told() -> bool:
            try:
                found.append(self.client().place(APP))
            except ClientError:
                return False
            return True

        eventually(is_told, "the master says where key groups are")
        return found[-1]

    def move(self, mode: Mode) -> Moving:
        """Moves groups of one of two agents to the other; others too, a few times, where they have moved instantly."""
        for _ in range(TRIES):
            moving = self._moved(mode)
            if moving.mode == mode:
                break
        return moving

    def _moved(self, mode: Mode) -> Moving:
        """Moves groups by `elf place`: those that no other move still needs."""
        found: list[Moving] = []

        def is_done() -> bool:
            old, new, groups = _movable(self.placement())
            if len(groups) < MOVED:
                return False
            texts = ("--move", ",".join(map(str, groups)), "--to", new, "--mode", mode)
            said = elf("place", APP, "--socket", str(self.fleet.socket(ASKED)), "--output", "json", *texts)
            if said.code:
                assert "did not answer in time" in said.err or "has moved already" in said.err, said.err
                return False
            lines = [json.loads(line) for line in said.out.splitlines()]
            told = [line for line in lines if line.get("group") in groups]
            assert all(line["agents"][-1] == new for line in told if line["type"] == "group"), told
            moves = [line for line in told if line["type"] == "move"]
            newest = max(moves, key=lambda line: line["number"])
            assert newest["mode"] in {mode, "instant"}, "instantly where owners had no time to answer"
            found.append(Moving(set(groups), old, new, newest["mode"], milliseconds(newest["first_pane"])))
            return True

        eventually(is_done, "groups move")
        return found[-1]

    def until_over(self, moving: Moving) -> None:
        """Waits until no window needs the groups' old owner any more."""
        eventually(
            lambda: all(one.is_over for one in self.placement().moves if one.group in moving.groups), "the move is over"
        )

    def balanced(self) -> list[tuple[str, str]]:
        """Lines of the job's log on groups that its master has moved by itself, as an owner was busy."""
        return [(one.time, one.text) for one in self.client().log(APP).lines if "key groups move to" in one.text]

    def until_whole(self, after: int) -> Came:
        """Waits for a window of all agents, with all of their panes."""
        return self.watch.wait_for(
            "all agents", lambda came: came.result.contributors == len(NAMES) and not came.result.partial, after=after
        )

    def check(self, after: int) -> float:
        """Holds the windows from one on against the logs; returns the longest time between two."""
        windows = self.watch.windows[after:]
        for earlier, later in pairwise(windows):
            assert later.start_ms == earlier.start_ms + SLIDE_MS, "a window is left out, or there twice"
        for came in windows:
            check_window(self.logs, came)
        assert self.fleet.faults() == []
        silence_s = max(later.at_s - earlier.at_s for earlier, later in pairwise(windows))
        assert silence_s < patience(SILENCE_S), self.watch.summary(after)
        return silence_s


def _movable(placed: JobPlacement) -> tuple[str, str, list[int]]:
    """Groups of one of two agents that may move in any mode to the other one."""
    needed = {one.group for one in placed.moves if not one.is_over}
    owned = {
        agent: [
            one.group for one in placed.groups if one.agents == [agent] and one.trees != [0] and one.group not in needed
        ]
        for agent in (OLD, NEW)
    }
    old, new = sorted(owned, key=lambda agent: -len(owned[agent]))
    return old, new, owned[old][:MOVED]


def check_window(logs: KeyLogs, came: Came) -> None:
    """Who is whole is counted to the last line; who is partial in some panes, and named; who is missing not at all."""
    result, about = came.result, came.result.json[-400:]
    assert result.expected == len(NAMES)
    assert result.contributors == len(NAMES) - len(result.missing), about
    there = set(NAMES) - set(result.missing)
    low = logs.counted(there - set(result.partial), came.start_ms, came.end_ms)
    high = logs.counted(there, came.start_ms, came.end_ms)
    rows = {row["key"]: row["events"] for row in result.rows}
    assert [row["total"] for row in result.rows] == list(rows.values()), "SUM and COUNT are of the same lines"
    assert len(rows) == len(result.rows), "a key is there twice"
    assert low.keys() <= rows.keys() <= high.keys(), about
    assert all(low[key] <= events <= high[key] for key, events in rows.items()), about
    assert result.events == sum(rows.values())


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("moved")
    key = app_id(APP, b"")
    ids: list[int | None] = [key, tree_id(key, 1), tree_id(key, 2)]
    ids += [None] * (len(NAMES) - len(ids))
    with KeyLogs(folder / "logs") as logs:
        specs = [
            AgentSpec(name, (StreamFiles("web", (str(logs.path(name)),)),), node_id=node_id)
            for name, node_id in zip(NAMES, ids, strict=True)
        ]
        with AgentFleet(folder / "agents", specs) as fleet:
            submit(fleet.socket(ASKED), QUERY, APP, len(NAMES))
            with Watch(fleet.socket(ASKED), APP) as watch:
                stage = Stage(fleet, logs, watch)
                stage.until_whole(0)
                yield stage


def test_groups_move_in_each_mode_and_no_window_is_the_worse_for_it(stage: Stage) -> None:
    mark = len(stage.watch.windows) - 1
    epochs = {came.result.epoch for came in stage.watch.windows[mark:]}
    modes = []
    for mode in MODES:
        moving = stage.move(mode)
        modes.append(moving.mode)
        stage.until_over(moving)
    stage.watch.wait_for("windows after all moves", lambda _came: True, after=len(stage.watch.windows) + 4)
    silence_s = stage.check(mark)
    windows = [came.result for came in stage.watch.windows[mark:]]
    assert all(not one.missing and not one.partial for one in windows)
    assert {one.epoch for one in windows} == epochs, "the master goes on"
    print(f"between two windows while groups move ({', '.join(modes)}): {silence_s:.1f} s at most")


QUICK = (("smooth", "old owner", "later"),)
"""Simulated owners die in all of these ways: `test_owners_simulated.py`."""
CASES = sorted({*product(MODES, ("master", "old owner", "new owner"), ("at once", "later"))} - {*QUICK})


@pytest.mark.parametrize(("mode", "victim", "moment"), seeds(*QUICK, slow=CASES))
def test_whoever_is_killed_in_the_middle_of_a_move_windows_go_on(
    stage: Stage, mode: Mode, victim: str, moment: str
) -> None:
    """At once: before the first pane that is with the new owner; later: when windows have panes of both owners."""
    mark = len(stage.watch.windows) - 1
    balanced = stage.balanced()
    moving = stage.move(mode)
    if moment == "later":
        stage.watch.wait_for(
            "a window with panes of both owners", lambda came: came.end_ms > moving.first_ms, after=mark
        )
    name = {"master": MASTER, "old owner": moving.old, "new owner": moving.new}[victim]
    killed = len(stage.watch.windows)
    stage.fleet.kill(name)
    without = stage.watch.wait_for(f"a window without {name}", lambda came: name in _named(came), after=killed)
    stage.fleet.restart(name)
    back = stage.until_whole(len(stage.watch.windows))
    silence_s = stage.check(mark)
    owners = {one.group: one.agents for one in stage.placement().groups}
    if set(stage.balanced()) <= set(balanced):
        assert all(owners[group] == [moving.new] for group in moving.groups), "they have moved"
    named = {one for came in stage.watch.windows[mark:] for one in _named(came)}
    print(
        f"{moving.mode}, {victim} killed {moment}: {silence_s:.1f} s between two windows,"
        f" {back.at_s - without.at_s:.1f} s until all are whole again, {sorted(named)} named"
    )


def _named(came: Came) -> list[str]:
    return [*came.result.missing, *came.result.partial]
