"""Messages on the owners of a job's key groups, and on groups that are to move."""

from __future__ import annotations

from typing import Annotated

import msgspec

from agent.runtime.model.fields import GROUPS, Count, Group, Message, Mode, Name, Text
from overlay import Id

Tree = Annotated[int, msgspec.Meta(ge=0, lt=GROUPS)]


class PlaceRequest(Message, frozen=True, tag=True):
    """Agent → master, as a request to the appId: move these groups to a tree of that agent, if any are named; say where
    groups are in any case.

    `to`: the agent's name, or its node id in hexadecimal digits. `by`: as in `Update`.
    """

    groups: Annotated[tuple[Group, ...], msgspec.Meta(max_length=GROUPS)] = ()
    to: Text = ""
    mode: Mode = "instant"
    by: Annotated[str, msgspec.Meta(max_length=255)] = ""


class OwnerView(msgspec.Struct, frozen=True):
    """The owner of a tree. `agent`: "" where its name is not known. `rows`: those that it gets in a second."""

    tree: Tree
    agent: Text
    node_id: Id
    rows: float


class GroupView(msgspec.Struct, frozen=True):
    """A key group, the trees that its keys are on, and the rows of it that owners get in a second."""

    group: Group
    trees: tuple[Tree, ...]
    rows: float


class MoveView(msgspec.Struct, frozen=True):
    """A move. `first_pane`: the start of the first pane that is with the new owner, "" for all panes of this epoch.
    `is_over`: no window needs the old owner any more."""

    number: Count
    group: Group
    tree: Tree
    mode: Mode
    first_pane: Text
    is_over: bool


class DecisionView(msgspec.Struct, frozen=True):
    """A decision on how windows are computed: the seconds of a processor that all agents need in a minute together, and
    those of the best way with the other choice. None where they are not known, or there is no other."""

    choice: Text
    cost_s: float | None = None
    other_s: float | None = None


class PlacementView(Message, frozen=True, tag=True):
    """Master → agent, in response to PlaceRequest. `refusal`: why groups are not moved. `measured`: what decisions are
    made of, by titles."""

    name: Name
    owners: list[OwnerView]
    groups: list[GroupView]
    moves: list[MoveView]
    refusal: Text | None = None
    decisions: list[DecisionView] = []  # noqa: RUF012
    measured: list[tuple[Text, float]] = []  # noqa: RUF012
