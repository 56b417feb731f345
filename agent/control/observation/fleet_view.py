"""Describes this agent to others that ask, and the fleet, a job's trees and its key groups to clients, by what agents
answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from agent.control import messages as control
from agent.control.observation.placement_entries import (
    DecisionEntry,
    GroupEntry,
    JobPlacement,
    MeasuredEntry,
    MoveEntry,
    OwnerEntry,
)
from agent.control.status_report import described_job, memory_bytes
from agent.feeding.statistics import StreamStatistics
from agent.runtime.agent import Agent
from agent.runtime.messages.jobs import Announce
from agent.runtime.messages.sender import FLEET_GROUP
from agent.runtime.messages.views.descriptions import AgentDescription, TreePlace
from agent.runtime.messages.views.placement import PlacementView
from agent.runtime.requests.events import AgentAsked, AgentsDescribed
from agent.runtime.requests.status import lag_s, tree_places
from overlay import Id, format_id


def own_description(
    asked: AgentAsked,
    agent: Agent,
    streams: Mapping[str, StreamStatistics],
    version: str,
    uptime_s: float,
    wall_ms: int,
) -> AgentDescription:
    """This agent's answer to another one. O(jobs)."""
    job = None if asked.job is None else agent.jobs.get(asked.job)
    lags = [seconds for one in agent.jobs if (seconds := lag_s(one, one.committed, wall_ms)) is not None]
    return AgentDescription(
        app_id=FLEET_GROUP,
        question=asked.question,
        agent=agent.name,
        version=version,
        uptime_s=uptime_s,
        memory_bytes=memory_bytes(),
        events=sum(one.events for one in streams.values()),
        malformed=sum(one.malformed for one in streams.values()),
        events_per_s=sum(one.events_per_s for one in streams.values()),
        jobs=len(agent.jobs),
        masters=len(agent.masters.held),
        lag_s=max(lags, default=None),
        is_leaving=agent.drain.has_begun,
        places=[] if job is None else tree_places(job, agent.node, wall_ms),
        elements=agent.keyed.statistics().get("elements", 0),
    )


def described_fleet(found: AgentsDescribed) -> control.Fleet:
    """The fleet for clients, its agents by their names."""
    agents = [_agent(node_id, one) for node_id, one in found.answers.items()]
    return control.Fleet(sorted(agents, key=lambda one: (one.agent, one.node_id)), found.silent)


def described_tree(announce: Announce, found: AgentsDescribed) -> control.Tree:
    """The trees of a job for clients."""
    job, names = described_job(announce), {node_id: one.agent for node_id, one in found.answers.items()}
    places = [
        _place(node_id, one.agent, place, names) for node_id, one in found.answers.items() for place in one.places
    ]
    places.sort(key=lambda one: (one.tree, one.agent, one.node_id))
    counts = (job.agents, job.expected, job.frontier)
    return control.Tree(job.app, job.app_id, job.query, job.master, *counts, places, found.silent)


def _agent(node_id: Id, one: AgentDescription) -> control.AgentEntry:
    return control.AgentEntry(
        agent=one.agent,
        node_id=format_id(node_id),
        version=one.version,
        uptime_s=round(one.uptime_s, 1),
        memory_bytes=one.memory_bytes,
        events=one.events,
        malformed=one.malformed,
        events_per_s=round(one.events_per_s, 1),
        jobs=one.jobs,
        masters=one.masters,
        lag_s=one.lag_s,
        leaving=one.is_leaving,
        elements=one.elements,
    )


def described_placement(found: PlacementView) -> JobPlacement:
    """The owners, groups and moves of a job for clients."""
    names = {owner.tree: owner.agent for owner in found.owners}
    counts = Counter(tree for one in found.groups for tree in one.trees)
    return JobPlacement(
        found.name,
        [OwnerEntry(one.tree, one.agent, format_id(one.node_id), counts[one.tree], one.rows) for one in found.owners],
        [
            GroupEntry(one.group, list(one.trees), [names.get(tree, "") for tree in one.trees], one.rows)
            for one in found.groups
        ],
        [
            MoveEntry(one.number, one.group, one.tree, names.get(one.tree, ""), one.mode, one.first_pane, one.is_over)
            for one in found.moves
        ],
        [DecisionEntry(one.choice, one.cost_s, one.other_s) for one in found.decisions],
        [MeasuredEntry(what, value) for what, value in found.measured],
    )


def _place(node_id: Id, agent: str, place: TreePlace, names: Mapping[Id, str]) -> control.TreePlaceEntry:
    return control.TreePlaceEntry(
        agent=agent,
        node_id=format_id(node_id),
        tree=place.tree,
        roles=list(place.roles),
        parent=None if place.parent is None else format_id(place.parent),
        choice=place.choice,
        children=place.children,
        awaited=[names.get(child, format_id(child)) for child in place.awaited],
        depth=place.depth,
        round_trip_s=place.round_trip_s,
        lag_s=place.lag_s,
        waiting=place.waiting,
    )
