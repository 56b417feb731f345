"""Loads that tests of Flux and of ELF's balance share."""

import numpy as np
from hypothesis import strategies as st

from agent.placement import GroupMove, PlacementLoads

GROUPS_MAX, AGENTS_MAX = 20, 6
ROUNDING = 1e-9


@st.composite
def any_loads(draw: st.DrawFn, *, equally_fast: bool = False, settled: bool = False) -> PlacementLoads:
    """Loads of all kinds: zero ones, others' work, unequal speeds and costs; where not `settled`, also groups without
    an owner or under way, and agents that leave."""
    groups, agents = draw(st.integers(0, GROUPS_MAX)), draw(st.integers(1, AGENTS_MAX))
    amounts = st.one_of(st.just(0.0), st.integers(0, 50).map(float), st.floats(1e-3, 1e3))
    flags = st.booleans() if not settled else st.just(True)

    def many(one: st.SearchStrategy[float], number: int) -> list[float]:
        return draw(st.lists(one, min_size=number, max_size=number))

    available = draw(st.lists(flags, min_size=agents, max_size=agents).filter(any))
    return PlacementLoads.of(
        draw(st.lists(st.integers(0 if settled else -1, agents - 1), min_size=groups, max_size=groups)),
        many(amounts, groups),
        many(amounts, agents),
        costs=many(st.floats(0.1, 10), groups),
        speeds=None if equally_fast else many(st.floats(0.25, 4), agents),
        movable=draw(st.lists(flags, min_size=groups, max_size=groups)),
        available=available,
    )


def zipf_loads(agents: int, seed: int, exponent: float = 1.0, groups: int = 64) -> PlacementLoads:
    """Groups whose work falls with their rank, dealt to agents in turn in an order of chance."""
    weights = np.arange(1.0, groups + 1) ** -exponent
    return PlacementLoads.of(
        np.arange(groups) % agents, np.random.default_rng(seed).permutation(weights), np.zeros(agents)
    )


def are_moves_of(moves: list[GroupMove], loads: PlacementLoads) -> bool:
    """Whether moves are of movable groups, each at most once, from their owners to other agents that are available."""
    places = [move.group for move in moves]
    return len(set(places)) == len(places) and all(
        loads.movable[move.group]
        and loads.owners[move.group] == move.giver != move.taker
        and loads.available[move.taker]
        for move in moves
    )
