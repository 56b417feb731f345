"""The owners, key groups and moves of a job, as the control socket carries them to clients.

Clients import this module, so it imports no frames.
"""

from __future__ import annotations

import msgspec

from agent.runtime.model.fields import Mode


class OwnerEntry(msgspec.Struct, frozen=True, tag="owner"):
    """The owner of one of a job's trees, with its number of key groups. `agent`: "" where its name is not known yet.
    `rows_per_s`: the rows that it gets in a second."""

    tree: int
    agent: str
    node_id: str
    groups: int
    rows_per_s: float


class GroupEntry(msgspec.Struct, frozen=True, tag="group"):
    """A key group, the trees that its newest panes are on, and their owners: two while it moves smoothly. `rows_per_s`:
    the rows of it that owners get in a second."""

    group: int
    trees: list[int]
    agents: list[str]
    rows_per_s: float


class MoveEntry(msgspec.Struct, frozen=True, tag="move"):
    """A move of a key group to a tree. `first_pane`: the start of the first pane that is with the new owner (RFC 3339),
    "" for all panes. `is_over`: no open window needs the old owner any more."""

    number: int
    group: int
    tree: int
    agent: str
    mode: Mode
    first_pane: str
    is_over: bool


class DecisionEntry(msgspec.Struct, frozen=True, tag="decision"):
    """A decision on how a job's windows are computed: seconds of a processor that all agents need for them in a minute,
    and those of the best way with the other choice. None where they are not known, or there is no other."""

    choice: str
    cost_s: float | None
    other_s: float | None


class MeasuredEntry(msgspec.Struct, frozen=True, tag="measured"):
    """A number that decisions are made of; the title says its unit."""

    what: str
    value: float


class JobPlacement(msgspec.Struct, frozen=True, tag="placement"):
    """The places of a job's key groups. `moves`: those that are under way, or were the last ones of their groups.
    `decisions`, `measured`: on windows, as its master decides by now."""

    app: str
    owners: list[OwnerEntry]
    groups: list[GroupEntry]
    moves: list[MoveEntry]
    decisions: list[DecisionEntry] = []
    measured: list[MeasuredEntry] = []
