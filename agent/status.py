"""What an agent says of itself and of the fleet's jobs: plain data, made when asked for."""

from __future__ import annotations

from dataclasses import dataclass

from overlay import Peer


@dataclass(frozen=True, slots=True)
class JobListing:
    """A job of the fleet as its master last announced it. `frontier`: the pane up to which results are out."""

    app_id: int
    name: str
    stream: str
    text: str
    bounded: bool
    master: Peer
    master_name: str
    epoch: int
    version: int
    agents: int
    expected: int
    frontier: int | None


@dataclass(frozen=True, slots=True)
class PartStatus:
    """An agent's part in one job: its roles (master, worker, combiner), its place in the tree, how far it is."""

    app_id: int
    name: str
    roles: tuple[str, ...]
    parent: Peer | None
    children: tuple[Peer, ...]
    installed: bool
    version: int
    epoch: int
    frontier: int | None
    sealed_upto: int | None
    late: int
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class AgentStatus:
    """All parts of one agent. `refused` counts messages that were none, unexpected, or from the wrong sender."""

    name: str
    parts: tuple[PartStatus, ...]
    followed: tuple[int, ...]
    replicas: tuple[int, ...]
    refused: int
    leaving: bool
