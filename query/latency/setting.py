"""Knobs that can be turned, and what is known of a job, its agents and its tree: all that a prediction is made of."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cached_property, lru_cache

from query.latency.distribution import Distribution
from query.latency.groups import GROUP_EACH_ROW, HeapsLaw
from query.latency.phases import Phase
from query.latency.resources import LinearCost

FANOUT = 16
"""Children of an agent in a tree whose shape is not known: one for each digit of an id."""
LEVELS_MAX = 64
"""Upper bound on the levels of a tree."""
WAY_STEP = 0.02
"""Relative difference of two ways that are told apart."""


class Evidence(IntEnum):
    """The kind of knowledge behind a value, the weakest first."""

    ASSUMED = 0
    """Nobody measured it: a wide guess."""
    SAMPLED = 1
    """By few measurements, or computed from those of another setting or rate."""
    MEASURED = 2
    """Measured of this job at this setting, or known exactly."""

    @property
    def label(self) -> str:
        """The word for people."""
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Setting:
    """The knobs. `grace`: seconds that late lines are awaited. `look`: seconds between two looks at a file. `on_due`:
    one more look at the moment a pane is due. `cuts`: short panes that each pane is cut into. `trees`: trees that the
    keys are spread over. Raises ValueError for values that cannot be.
    """

    grace: float = 5.0
    look: float = 0.1
    on_due: bool = False
    cuts: int = 1
    trees: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.grace < math.inf:
            raise ValueError(f"grace: 0 s or more, not {self.grace}")
        if not 0 < self.look < math.inf:
            raise ValueError(f"look: more than 0 s, not {self.look}")
        if self.cuts < 1 or self.trees < 1:
            raise ValueError("cuts and trees: 1 or more")


@dataclass(frozen=True, slots=True)
class AgentClass:
    """Agents that are alike: how many, and the lines that each reads in a second.

    `phases`: durations measured at `Measured.setting` and `rate`, of all of them together. `share`: of a processor,
    that their work gets. `reads`: the last pairs of (time since the block before, time to parse and insert it), of one
    of them. `sealed_before`: durations of seals of other jobs whose panes end together with this job's and go first.
    `look_phase`: seconds from a pane's end to the next look, where looks keep time; None if they do not.
    """

    agents: int = 1
    rate: float = 0.0
    phases: Mapping[Phase, Distribution] = field(default_factory=dict)
    share: float = 0.5
    reads: Sequence[tuple[float, float]] = ()
    sealed_before: Sequence[Distribution] = ()
    look_phase: float | None = None

    def __post_init__(self) -> None:
        if self.agents < 1 or not 0 <= self.rate < math.inf:
            raise ValueError(f"a class of {self.agents} agents with {self.rate} lines a second each")


@dataclass(frozen=True)
class Subtree:
    """An agent in a tree: the index of its class, None if it only combines; its children, and how many are alike.

    `way` (s): the mean of its way to its parent; None if it is not told from that of others.
    """

    kind: int | None
    children: tuple[tuple[Subtree, int], ...] = ()
    way: float | None = None

    @cached_property
    def levels(self) -> int:
        """Levels below this agent."""
        return max((1 + child.levels for child, _ in self.children), default=0)

    @cached_property
    def longest_way(self) -> float:
        """The longest of all ways to this agent (s), as far as they are known, and on from it."""
        return (self.way or 0.0) + max((child.longest_way for child, _ in self.children), default=0.0)

    @cached_property
    def agents(self) -> Mapping[int, int]:
        """The agents of each class in this subtree, itself included."""
        counts = {} if self.kind is None else {self.kind: 1}
        for child, number in self.children:
            for kind, agents in child.agents.items():
                counts[kind] = counts.get(kind, 0) + agents * number
        return counts


@lru_cache(maxsize=8)
def balanced_tree(agents: tuple[int, ...], fanout: int = FANOUT) -> Subtree:
    """The tree in which each agent but the last ones has `fanout` children, with so many agents of each class, which
    are spread over it evenly. O(agents · levels). Raises ValueError without agents, or for a fanout below 2.
    """
    total = sum(agents)
    if total < 1 or fanout < 2:
        raise ValueError("a tree has an agent at least, and two children each")
    kinds = sorted(
        ((place + 0.5) / number, kind) for kind, number in enumerate(agents) for place in range(number)
    )  # each class at even distances
    nodes: dict[int, Subtree] = {}
    for index in reversed(range(total)):
        children: dict[Subtree, int] = {}
        for below in range(index * fanout + 1, min((index + 1) * fanout, total - 1) + 1):
            child = nodes.pop(below)
            children[child] = children.get(child, 0) + 1
        nodes[index] = Subtree(kinds[index][1], tuple(children.items()))
    return nodes[0]


def tree_of(parents: Sequence[int], kinds: Sequence[int], ways: Sequence[float]) -> Subtree:
    """The tree of agents of these classes: of each its parent's place, which is before its own, and its way (s) to it.

    The first is the root. Ways are told apart to 2 %, so that agents which are alike count as one. O(agents · levels).
    Raises ValueError for a parent that does not come first.
    """
    below: list[dict[Subtree, int]] = [{} for _ in parents]
    for place in reversed(range(1, len(parents))):
        if not 0 <= parents[place] < place:
            raise ValueError(f"agent {place} has the parent {parents[place]}, which does not come before it")
        way = math.exp(round(math.log(max(ways[place], 1e-6)) / WAY_STEP) * WAY_STEP)
        node = Subtree(kinds[place], tuple(below[place].items()), way)
        children = below[parents[place]]
        children[node] = children.get(node, 0) + 1
    return Subtree(kinds[0], tuple(below[0].items()))


@dataclass(frozen=True, slots=True)
class Measured:
    """All that is known of a job, measured while `setting` was in force; nothing but the job's `pane` (s) has to be.

    `window` (s): the longest one. `classes`: agents. `tree`: None if its shape is not known; `more_trees`: those of
    further trees where they differ. `phases`: durations of
    UPLINK and COMBINE (of one level), FINISH, COMMIT and DELIVER. `costs`: of PARSE, INSERT, SEAL, UPLINK, COMBINE and
    FINISH. `groups`: those in an agent's rows; `group_bytes`: bytes of one as it travels. `look_cost`: processor time
    (s) of a look at a file. `mean_factor`, `spread_factor`: how many times as long as the sum of its phases all of it
    was on average, beyond GRACE, and how many times as widely spread. `longer`: seconds by which phases take longer
    since, those of trees in all levels together.
    """

    pane: float
    window: float = 0.0
    setting: Setting = Setting()
    classes: Sequence[AgentClass] = (AgentClass(),)
    tree: Subtree | None = None
    more_trees: Sequence[Subtree] = ()
    phases: Mapping[Phase, Distribution] = field(default_factory=dict)
    costs: Mapping[Phase, LinearCost] = field(default_factory=dict)
    groups: HeapsLaw = GROUP_EACH_ROW
    group_bytes: float = 32.0
    look_cost: float = 50e-6
    mean_factor: float = 1.0
    spread_factor: float = 1.0
    longer: Mapping[Phase, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 0 < self.pane < math.inf or not 0 <= self.window < math.inf:
            raise ValueError(f"a window of {self.window} s made of panes of {self.pane} s")
        if not self.classes:
            raise ValueError("a class of agents at least")
        for tree in filter(None, (self.tree, *self.more_trees)):
            if tree.levels > LEVELS_MAX:
                raise ValueError(f"a tree of {tree.levels} levels: {LEVELS_MAX} at most")
            if any(kind >= len(self.classes) for kind in tree.agents):
                raise ValueError("a tree with an agent of no class")

    @property
    def rate(self) -> float:
        """Lines that all agents read in a second."""
        return sum(one.agents * one.rate for one in self.classes)

    @property
    def shape(self) -> Subtree:
        """The tree, or a balanced one."""
        return self.tree or balanced_tree(tuple(one.agents for one in self.classes))

    def shapes(self, trees: int) -> Sequence[Subtree]:
        """The shapes of so many trees; those that are not known are like the first."""
        known = (self.shape, *self.more_trees)[:trees]
        return (*known, *(self.shape for _ in range(trees - len(known))))

    def at_rate(self, rate: float) -> tuple[AgentClass, ...]:
        """The classes as they would be with so many lines a second in all, in the same proportions; alike if there are
        none now.
        """
        agents = sum(one.agents for one in self.classes)
        return tuple(
            replace(one, rate=one.rate * rate / self.rate if self.rate > 0 else rate / agents) for one in self.classes
        )
