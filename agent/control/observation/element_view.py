"""Describes the processing elements of keyed jobs to clients, by all agents' answers."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from agent.control import messages as control
from agent.runtime.messages.jobs import Announce
from agent.runtime.messages.sender import FLEET_GROUP
from agent.runtime.messages.views.element_views import DescribeElements, ElementsDescription, HostedElement, KeyedState
from agent.runtime.requests.events import ElementsDescribed
from overlay import Id, Peer, format_id


def asked_elements(
    request: control.GetElements, known: Announce | None, asker: Peer, question: int
) -> DescribeElements:
    """The question to the fleet for a client's request."""
    job = None if known is None else known.app_id
    return DescribeElements(FLEET_GROUP, asker, question, job, request.element, request.key)


def described_elements(
    request: control.GetElements, found: ElementsDescribed, names: Mapping[Id, str]
) -> control.Elements | control.Refused:
    """The elements of the jobs in `names`, for a client that may read these."""
    answers = sorted(found.answers.items(), key=lambda one: (one[1].agent, one[0]))
    entries = [
        _entry(names[element.job], node_id, one.agent, element)
        for node_id, one in answers
        for element in one.elements
        if element.job in names
    ]
    entries.sort(key=lambda one: one.app)
    states = [_state(one.agent, state) for _, one in answers for state in one.states]
    if request.app is not None and (fault := _fault(request, [one for _, one in answers], states, found.silent)):
        return fault
    return control.Elements(entries, states, found.silent)


def _fault(
    request: control.GetElements,
    answers: list[ElementsDescription],
    states: list[control.ElementState],
    silent: int,
) -> control.Refused | None:
    """The reason why there is nothing to show; None if there is something, or agents have not answered."""
    keyed = [one for one in answers if one.keyed]
    waiting = f"; {silent} agents have not answered" if silent else ""
    if not answers and silent:
        return control.Refused("unavailable", f"none of {silent} agents has answered: ask again in a moment")
    if not keyed and silent:
        text = (
            f"no agent that has answered runs the elements of {request.app}; {silent} have not: ask again in a moment"
        )
        return control.Refused("unavailable", text)
    if not keyed:
        text = f"{request.app} has no keyed elements: elf jobs lists the jobs, docs/elements.md tells which have some"
        return control.Refused("usage", text)
    if request.key is None or states:
        return None
    if all(one.fault for one in keyed):
        return control.Refused("usage", keyed[0].fault)
    key = ", ".join(request.key)[:200]
    of = f" {request.element}" if request.element else ""
    return control.Refused("usage", f"{request.app} has no element{of} with the key {key}{waiting}")


def _entry(app: str, node_id: Id, agent: str, one: HostedElement) -> control.ElementEntry:
    fields = {name: getattr(one, name) for name in one.__struct_fields__ if name != "job"}
    fields["hot"] = [control.ElementKey(hot.key, hot.share, hot.workers) for hot in one.hot]
    return control.ElementEntry(app=app, agent=agent, node_id=format_id(node_id), **fields)


def _state(agent: str, one: KeyedState) -> control.ElementState:
    state = _decoded(one.state) if one.state else None
    return control.ElementState(
        element=one.element, agent=agent, node=one.node, epoch=one.epoch, state=state, state_bytes=one.state_bytes
    )


def _decoded(state: bytes) -> object:
    """JSON that another agent has sent; its text where it is none."""
    try:
        return msgspec.json.decode(state)
    except (msgspec.DecodeError, RecursionError):
        return state.decode(errors="replace")
