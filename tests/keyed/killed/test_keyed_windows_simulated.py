"""Simulated agents die, come, leave, are cut off and stand still while a job whose keys are split among workers counts
words, and is changed: its windows count each word once or name somebody, and are those of the job that splits none."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Iterable

import pytest
from recording_client import client_of
from seeds import seeds
from simulated_fleet import STEP_S, Server, key_of
from split_words import GROUPINGS, SHAPES, SPLIT, WHOLE, Shape, WindowLine, WordsFleet

from agent.runtime.function.result import UnshownWindows
from query.model.timestamps import parse_timestamp

ACTS_S = 2.0
"""Everything happens within this time."""
WRITTEN_S = 1.5
"""Words are written for as long after it."""
PATIENCE_S = 120.0
"""Time within which all that was written is in windows."""
Act = Callable[["CountedWords", Server], None]
Results = list[tuple[WindowLine, list[Shape]]]


class CountedWords:
    """A fleet in which both jobs have begun, what has befallen it, and what was counted. The witness is an agent that
    nothing happens to, and whose log goes on."""

    def __init__(self, seed: int, agents: int, writers: int, step_s: float, **options: float) -> None:
        self.seed = seed
        self.chance = random.Random(seed)
        grouping, workers = self.chance.choice(GROUPINGS), self.chance.choice((agents, 2 * agents, 4 * agents))
        self.acts = [f"{agents} agents, {grouping} over {workers}"]
        clause = f" KEYED BY product GROUPING {grouping} OVER {workers} WORKERS"
        self.fleet = WordsFleet(seed, clause, step_s, **options)
        self.leaving: set[str] = set()
        self.killed: set[str] = set()
        for _ in range(agents):
            self.fleet.add("web")
            self.run(0.02)
        self.run(0.5)
        everybody = [*self.fleet.servers.values()]
        self.fleet.ask(everybody[0], SHAPES[0], is_new=True)
        self._until(lambda: all(map(self.fleet.is_reading, everybody)), "agents do not read")
        masters = [server for job in (SPLIT, WHOLE) for server, _ in self.fleet.masters(job)]
        self.witness = self.chance.choice([one for one in everybody if one not in masters])
        for job in (SPLIT, WHOLE):
            client_of(self.witness.agent).follow(key_of(job), None, self.fleet.now)
        writing = [
            self.witness,
            *self.chance.sample([one for one in everybody if one is not self.witness], writers - 1),
        ]
        self.fleet.keep_writing(math.inf, servers=writing)
        self._until(lambda: bool(self._whole()), "no windows")
        self.first = min(self._whole())
        """Windows count from this one on."""
        self.upto = 0

    def run(self, seconds: float) -> None:
        self.fleet.run(self.fleet.now + seconds)

    def _until(self, condition: Callable[[], bool], what: str) -> None:
        deadline = self.fleet.now + PATIENCE_S
        while not condition():
            assert self.fleet.now < deadline, f"{self.about()}: {what}"
            self.run(STEP_S)

    def _whole(self) -> set[int]:
        """The windows that both jobs have of everybody."""
        names = self.fleet.servers.keys()
        found = [{one.pane for one in self.fleet.of(job) if one.contributors == names} for job in (SPLIT, WHOLE)]
        return set.intersection(*found)

    def note(self, act: str) -> None:
        self.acts.append(f"{self.fleet.now:.1f} {act}")

    def about(self) -> str:
        return f"seed {self.seed}: {'; '.join(self.acts)}"

    # What happens.

    def others(self) -> list[Server]:
        """Agents that something may happen to."""
        servers = [one for one in self.fleet.servers.values() if one is not self.witness]
        return [
            one for one in servers if one.is_up and one.stalled_until <= self.fleet.now and one.name not in self.leaving
        ]

    def happen(self, acts: Iterable[Act]) -> None:
        """Lets all of this happen, until all that was written is in windows."""
        for act in acts:
            self.fleet.at(self.fleet.now + self.chance.uniform(0, ACTS_S), lambda act=act: self._do(act))
        self.run(ACTS_S + WRITTEN_S)
        self.upto = self.fleet.wall_ms - 1000
        for server in self.fleet.servers.values():
            server.writes = server is self.witness
        self._until(self._is_told, "words are in no window, or lack in one that names nobody and are not late")

    def crash(self, server: Server) -> None:
        self.killed.add(server.name)
        self.fleet.crash(server)

    def _do(self, act: Act) -> None:
        if others := self.others():
            act(self, self.chance.choice(others))

    # What must hold.

    def results(self, job: str) -> Results:
        return [one for one in self.fleet.results(job, self.witness) if one[0].span[0] >= self.first]

    def _is_told(self) -> bool:
        """Whether each word is in a window that has it or names somebody, or is late: what comes after its window is
        counted so in a later result."""
        return all(
            self.lacking(results) <= sum(line.late for line, _ in results)
            for results in map(self.results, (SPLIT, WHOLE))
        )

    def lacking(self, results: Results) -> int:
        """How many words lack in windows that name nobody, or are in none: of an agent that was killed, while no result
        says that it lacks there."""
        lacking: Counter[tuple[int, int]] = Counter()
        for line, _ in results:
            if not line.names:
                lacking |= {line.span: self.fleet.written(*line.span).total() - line.events}
        spans = {line.span for line, _ in results}
        unshown = [one for line, _ in results for one in line.unshown]
        times = [
            (time, server.name)
            for server in self.fleet.servers.values()
            for time, _ in server.log
            if self.first <= time < self.upto and not any(begin <= time < end for begin, end in spans)
        ]
        named = (name in self.killed and any(_names(one, name, at) for one in unshown) for at, name in times)
        return lacking.total() + len(times) - sum(named)

    def check(self) -> None:
        """A window that names nobody has each word that was written in it once, but for those that are late; any other
        at most once."""
        exact: dict[str, dict[tuple[tuple[int, int], Shape], bytes]] = {}
        for job in (SPLIT, WHOLE):
            exact[job] = {}
            for line, shapes in self.results(job):
                written = self.fleet.written(*line.span)
                about = f"{self.about()}: {job}, {line} of {written}"
                assert line.counts <= written, about
                assert line.events <= written.total(), about
                if not line.names and line.events == written.total():
                    assert bytes(line.rows) in [one.rows(written) for one in shapes], about
                    exact[job] |= {(line.span, one): bytes(line.rows) for one in shapes}
        for window in exact[SPLIT].keys() & exact[WHOLE].keys():
            assert exact[SPLIT][window] == exact[WHOLE][window], f"{self.about()}: {window}"


def _names(unshown: UnshownWindows, agent: str, time: int) -> bool:
    """Whether this says that an agent lacks at a time; a result names a few of many."""
    begin, end = map(parse_timestamp, (unshown.window_start, unshown.window_end))
    return begin <= time < end and (agent in unshown.missing or unshown.lacking > len(unshown.missing))


# What may happen.


def kill_for_a_while(world: CountedWords, server: Server) -> None:
    seconds = world.chance.choice((0.2, 1.0, 3.0))
    world.note(f"{server.name} is killed for {seconds} s")
    world.crash(server)
    world.fleet.at(world.fleet.now + seconds, lambda: world.fleet.restart(server))


def kill(world: CountedWords, server: Server) -> None:
    world.note(f"{server.name} is killed")
    world.crash(server)


def join(world: CountedWords, _server: Server) -> None:
    """Somebody comes, whose log begins when it is read."""
    server = world.fleet.add("web")
    world.note(f"{server.name} joins")

    def look() -> None:
        if world.fleet.is_reading(server) and server.is_up:
            world.fleet.at(world.fleet.now + 1.0, lambda: world.fleet.keep_writing(math.inf, servers=[server]))
        else:
            world.fleet.at(world.fleet.now + STEP_S, look)

    look()


def leave(world: CountedWords, server: Server) -> None:
    """Somebody leaves in order, when its log has been read."""
    world.note(f"{server.name} is to leave")
    world.leaving.add(server.name)
    server.writes = False

    def look() -> None:
        is_at_end = all(reader.position == len(server.log) for reader in server.readers.values())
        if world.fleet.is_reading(server) and is_at_end:
            world.note(f"{server.name} leaves")
            world.fleet.leave(server, patience=30.0)
        else:
            world.fleet.at(world.fleet.now + STEP_S, look)

    look()


def cut_off(world: CountedWords, server: Server) -> None:
    fleet, seconds = world.fleet, world.chance.choice((0.5, 2.0, 6.0))
    few = {server.name, *(one.name for one in world.chance.sample(world.others(), len(fleet.servers) // 8))}
    world.note(f"{', '.join(sorted(few))} cut off for {seconds} s")
    sides = [
        [one.node for one in fleet.servers.values() if one.is_up and (one.name in few) is side]
        for side in (True, False)
    ]
    fleet.simulator.cut(*sides)
    fleet.at(fleet.now + seconds, fleet.simulator.heal)


def stand_still(world: CountedWords, server: Server) -> None:
    seconds = world.chance.choice((0.5, 2.0, 6.0))
    world.note(f"{server.name} stands still for {seconds} s")
    world.fleet.stall(server, seconds)


def update(world: CountedWords, server: Server) -> None:
    shape = world.chance.choice(SHAPES)
    world.note(f"update to {shape.text('')}")
    world.fleet.ask(server, shape)


ACTS: tuple[Act, ...] = (kill_for_a_while, kill, join, leave, cut_off, stand_still, update)


def few(seed: int) -> CountedWords:
    """A few agents, to whom two things happen."""
    world = CountedWords(seed, agents=4, writers=3, step_s=0.25, commit_s=0.3, cut_s=0.06)
    world.happen(world.chance.sample(ACTS, 2))
    return world


def many(seed: int) -> CountedWords:
    """As many agents as a large fleet has, to whom all of it happens."""
    world = CountedWords(seed, agents=128, writers=12, step_s=0.3, commit_s=0.5, cut_s=0.1)
    world.happen(ACTS)
    return world


@pytest.mark.parametrize("seed", seeds(1, 2, 3, slow=[0, *range(4, 300)]))
def test_windows_of_split_keys_count_each_word_once_or_name_somebody(seed: int) -> None:
    few(seed).check()


@pytest.mark.parametrize("seed", seeds(slow=range(300)))
def test_windows_of_many_agents_do_so_too(seed: int) -> None:
    many(seed).check()
