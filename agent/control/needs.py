"""The rights that each request of a client needs. What a query reads is known once it is parsed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import query
from agent.access.decision import Need
from agent.access.rules import AccessRole, JobTarget
from agent.control import messages as control
from overlay import Id, parse_id

JobNamed = Callable[[str | Id], JobTarget]
"""Finds the job of a name or id; one that is not known belongs to nobody."""
JobsNamed = Callable[[str], tuple[JobTarget, ...]]
"""Finds every job that a query may mean by a name."""


def needs_of(request: control.Request, job_named: JobNamed) -> tuple[Need, ...]:
    """The rights that a request needs before anything is done for it."""
    need = NEEDS[type(request)](request, job_named)
    return () if need is None else (need,)


def _status(_request: control.GetStatus, _named: JobNamed) -> Need:
    return Need(AccessRole.READ, "see the status of this agent")


def _jobs(_request: control.GetJobs, _named: JobNamed) -> Need:
    return Need(AccessRole.READ, "list the fleet's jobs")


def _fleet(_request: control.GetFleet, _named: JobNamed) -> Need:
    return Need(AccessRole.READ, "see the fleet's agents")


def _elements(request: control.GetElements, named: JobNamed) -> Need:
    if request.app is None:
        return Need(AccessRole.READ, "list the fleet's jobs")
    act = "see the elements of" if request.key is None else "see the state of elements of"
    return Need(AccessRole.READ, f"{act} {request.app}", jobs=(named(request.app),))


def _place(request: control.PlaceGroups, named: JobNamed) -> Need:
    """Moves change no results: signed jobs need no signature for them."""
    job = named(request.app)
    if not request.groups:
        return Need(AccessRole.READ, f"see the key groups of {request.app}", jobs=(job,))
    return Need(AccessRole.OPERATE, f"move key groups of {request.app}", jobs=(job,), own_role=AccessRole.QUERY)


def _emit(request: control.EmitRequest, named: JobNamed) -> Need:
    job = named(request.app)
    return Need(AccessRole.OPERATE, f"send events into {request.app}", jobs=(job,), own_role=AccessRole.QUERY)


def _tap(request: control.TapRequest, _named: JobNamed) -> Need:
    return Need(AccessRole.QUERY, f"tap {request.stream}", streams=(request.stream,))


def _stream(request: control.DescribeRequest | control.SurveyRequest, _named: JobNamed) -> Need:
    return Need(AccessRole.READ, f"describe {request.stream}", streams=query.patterns(request.stream))


def _reading(
    request: control.FollowRequest | control.AskRequest | control.GetLog | control.GetTree | control.GetLatency,
    named: JobNamed,
) -> Need:
    what: dict[type[control.Request], str] = {
        control.FollowRequest: "follow", control.AskRequest: "ask", control.GetLog: "read the log of",
        control.GetTree: "see the tree of", control.GetLatency: "see the latency of",
    }  # fmt: skip
    return Need(AccessRole.READ, f"{what[type(request)]} {request.app}", jobs=(named(request.app),))


def _query(_request: control.QueryRequest | control.AnalyseRequest | control.RunDry, _named: JobNamed) -> Need:
    return Need(AccessRole.QUERY, "run queries")


def _submit(request: control.SubmitRequest, _named: JobNamed) -> Need:
    return Need(AccessRole.QUERY, f"submit {request.app}")


def _update(request: control.UpdateJob, named: JobNamed) -> Need:
    return _changing(f"change {request.app}", named(request.app))


def _signed_update(request: control.UpdateBundle, _named: JobNamed) -> Need:
    return Need(AccessRole.QUERY, f"change {request.app}")


def _stop(request: control.StopRequest, named: JobNamed) -> Need:
    job = named(request.app if request.app_id is None else parse_id(request.app_id))
    if request.seal is not None and not job.is_known:
        return Need(AccessRole.QUERY, f"stop {request.app}")
    return _changing(f"stop {request.app}", job)


def _changing(act: str, job: JobTarget) -> Need:
    """A creator's job is theirs alone, and their signature counts; a query is its owner's, or that of operators."""
    if job.creator:
        return Need(AccessRole.QUERY, act)
    return Need(AccessRole.OPERATE, act, jobs=(job,), own_role=AccessRole.QUERY)


def _drain(_request: control.DrainRequest, _named: JobNamed) -> Need:
    return Need(AccessRole.OPERATE, "end this agent", everything=True)


def _nothing(_request: control.GetRights, _named: JobNamed) -> None:
    """Everybody may know their own rights."""


def _reload(_request: control.ReloadRequest, _named: JobNamed) -> Need:
    return Need(AccessRole.OPERATE, "reload the configuration of this agent", everything=True)


NEEDS: dict[type[control.Request], Callable[[Any, JobNamed], Need | None]] = {
    control.GetRights: _nothing,
    control.GetStatus: _status,
    control.GetJobs: _jobs,
    control.GetFleet: _fleet,
    control.GetTree: _reading,
    control.GetElements: _elements,
    control.PlaceGroups: _place,
    control.EmitRequest: _emit,
    control.TapRequest: _tap,
    control.DescribeRequest: _stream,
    control.SurveyRequest: _stream,
    control.FollowRequest: _reading,
    control.AskRequest: _reading,
    control.GetLog: _reading,
    control.GetLatency: _reading,
    control.QueryRequest: _query,
    control.AnalyseRequest: _query,
    control.RunDry: _query,
    control.SubmitRequest: _submit,
    control.UpdateJob: _update,
    control.UpdateBundle: _signed_update,
    control.StopRequest: _stop,
    control.DrainRequest: _drain,
    control.ReloadRequest: _reload,
}
"""Every request has a row: a new one is not served before it says what it needs."""


def needs_of_query(parsed: query.Query, jobs_named: JobsNamed) -> tuple[Need, ...]:
    """The rights over what a query names, before its streams are looked into."""
    return _needs_over(query.streams_read(parsed), (app.name for app in query.apps(parsed)), jobs_named)


def needs_of_plan(plan: query.Plan, jobs_named: JobsNamed) -> tuple[Need, ...]:
    """The rights over what a plan reads."""
    first = () if plan.app is not None else (plan.streams_read, *(branch.stream for branch in plan.branches))
    # A stage over types reads nothing but what its own job makes, which its creator may read.
    return _needs_over(() if plan.types is not None else first, plan.apps, jobs_named)


def _needs_over(streams: Iterable[str], apps: Iterable[str], jobs_named: JobsNamed) -> tuple[Need, ...]:
    patterns = tuple(dict.fromkeys(pattern for text in streams for pattern in query.patterns(text)))
    jobs = tuple(job for name in dict.fromkeys(apps) for job in jobs_named(name))
    return (
        Need(AccessRole.QUERY, f"query {', '.join(patterns)}", streams=patterns),
        Need(AccessRole.READ, "read " + ", ".join(job.name for job in jobs), jobs=jobs),
    )
