"""Chooses the worker of each event of a keyed stage: six groupings (FISH, section 2.2), one object a source and stage.

Nothing here knows a clock, a socket or a key: hashes of keys and times come in, places of workers go out, a block of
events at a time. Edges between agents, the simulation and the benchmark use the same objects.
"""

from agent.grouping.choices import DynamicChoices, WideChoices
from agent.grouping.fish import Fish
from agent.grouping.grouping import WORKERS_MAX, Assignment, Grouping, HotKeys, Report
from agent.grouping.published import FishOptions, PublishedFish
from agent.grouping.ring import HashRing
from agent.grouping.simple import FieldsGrouping, PartialKeyGrouping, ShuffleGrouping

__all__ = [
    "GROUPINGS",
    "WORKERS_MAX",
    "Assignment",
    "FishOptions",
    "Grouping",
    "HashRing",
    "HotKeys",
    "PublishedFish",
    "Report",
    "make_grouping",
]

_CLASSES: dict[str, type[Grouping]] = {
    kind.name: kind for kind in (Fish, ShuffleGrouping, FieldsGrouping, PartialKeyGrouping, DynamicChoices, WideChoices)
}
GROUPINGS = tuple(_CLASSES)
"""Names of groupings, the default first."""


def make_grouping(name: str, assignment: Assignment, source: int) -> Grouping:
    """The grouping of a name, for one source of a stage, by its number. Raises ValueError for an unknown name."""
    if name not in _CLASSES:
        raise ValueError(f"there is no grouping {name}: groupings are {', '.join(GROUPINGS)}")
    return _CLASSES[name](assignment, source)
