"""The agents of a fleet and their places in the trees of a job, as the control socket carries them to clients."""

from __future__ import annotations

import msgspec


class AgentEntry(msgspec.Struct, frozen=True):
    """One agent of the fleet. `lag_s`: time since the end of the last published pane of the live job that lags most.
    `elements`: the processing elements of keyed jobs that it hosts."""

    agent: str
    node_id: str
    version: str
    uptime_s: float
    memory_bytes: int
    events: int
    malformed: int
    events_per_s: float
    jobs: int
    masters: int
    lag_s: float | None
    leaving: bool
    elements: int = 0


class Fleet(msgspec.Struct, frozen=True, tag="fleet"):
    """The agents that have answered; `silent` ones have not."""

    agents: list[AgentEntry]
    silent: int


class TreePlaceEntry(msgspec.Struct, frozen=True):
    """An agent's place in one of a job's trees; `parent` is a node id. See `descriptions.TreePlace`."""

    agent: str
    node_id: str
    tree: int
    roles: list[str]
    parent: str | None
    choice: str
    children: int
    awaited: list[str]
    depth: int | None
    round_trip_s: float | None
    lag_s: float | None
    waiting: int


class Tree(msgspec.Struct, frozen=True, tag="tree"):
    """The trees of a job. `agents` of the `expected` ones on its roster run it; `silent` agents have not answered."""

    app: str
    app_id: str
    query: str
    master: str
    agents: int
    expected: int
    frontier: str | None
    places: list[TreePlaceEntry]
    silent: int
