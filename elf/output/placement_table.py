"""Tables of a job's owners, key groups, moves and decisions, for `elf place`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from agent.control.messages import JobPlacement
from agent.control.observation.placement_entries import DecisionEntry
from elf.output.listing import Cell, Listing

OWNER_TITLES = ("TREE", "OWNER", "GROUPS", "ROWS/S")
GROUP_TITLES = ("KEY GROUPS", "TREE", "OWNER", "ROWS/S")
DECISION_TITLES = ("WINDOWS", "CPU S/MIN", "OTHERWISE")
MEASURED_TITLES = ("MEASURED", "")
MOVE_TITLES = ("MOVED", "TO TREE", "OWNER", "MODE", "FROM", "OLD OWNER")


def placement_tables(found: JobPlacement) -> list[Listing]:
    """The owners, the runs of groups that are with the same ones, the moves that go together, and the decisions."""
    owners: list[Sequence[Cell]] = [
        [str(one.tree), one.agent or one.node_id, one.groups, one.rows_per_s] for one in found.owners
    ]
    groups: list[Sequence[Cell]] = []
    for (trees, agents), alike in groupby(found.groups, lambda one: (tuple(one.trees), tuple(one.agents))):
        run = list(alike)
        rate = sum(one.rows_per_s for one in run)
        groups.append([shown_groups(one.group for one in run), " and ".join(map(str, trees)), _named(agents), rate])
    return [
        Listing(OWNER_TITLES, owners, "no owner is known yet"),
        Listing(GROUP_TITLES, groups, ""),
        Listing(MOVE_TITLES, _moves(found), "", optional=("FROM",)),
        Listing(DECISION_TITLES, [[one.choice, *decided_costs(one)] for one in found.decisions], ""),
        Listing(MEASURED_TITLES, [[one.what, f"{one.value:,.4g}"] for one in found.measured], ""),
    ]


def decided_costs(one: DecisionEntry) -> tuple[str, str]:
    """The cost of a decision, and that of the other choice, as people read them.

    >>> decided_costs(DecisionEntry("at owners", 0.01234, None)), decided_costs(DecisionEntry("at owners", None, None))
    (('0.0123', 'no other way'), ('no statistics yet', 'not known'))
    """
    if one.cost_s is None:
        return "no statistics yet", "not known"
    return f"{one.cost_s:.3g}", "no other way" if one.other_s is None else f"{one.other_s:.3g}"


def decision_text(one: DecisionEntry) -> str:
    """A decision in a line, with its costs in seconds of a processor in a minute.

    >>> decision_text(DecisionEntry("at owners", 1.25, 1.5))
    'at owners: 1.25 s, otherwise 1.5 s'
    """
    cost, other = decided_costs(one)
    if one.cost_s is None:
        return f"{one.choice}: {cost}"
    return f"{one.choice}: {cost} s, {other if one.other_s is None else f'otherwise {other} s'}"


def _moves(found: JobPlacement) -> list[Sequence[Cell]]:
    """Moves that differ in their groups alone are one row, in the order of their panes."""
    together: dict[tuple[int, str, str, str, bool], list[int]] = {}
    for one in found.moves:
        together.setdefault((one.tree, one.agent, one.mode, one.first_pane, one.is_over), []).append(one.group)
    return [
        [shown_groups(groups), str(tree), _named([agent]), mode, first or None, "done" if is_over else "needed"]
        for (tree, agent, mode, first, is_over), groups in together.items()
    ]


def _named(agents: Sequence[str]) -> str:
    """Owners by their names, of those that have sent anything yet.

    >>> _named(["web-1", ""])
    'web-1 and one not heard of yet'
    """
    return " and ".join(agent or "one not heard of yet" for agent in agents)


def shown_groups(groups: Iterable[int]) -> str:
    """Groups in their order, in as few characters as a person needs. O(groups).

    >>> shown_groups([8, 9, 10, 3, 63])
    '3,8-10,63'
    """
    runs: list[list[int]] = []
    for group in sorted(groups):
        if runs and group == runs[-1][1] + 1:
            runs[-1][1] = group
        else:
            runs.append([group, group])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
