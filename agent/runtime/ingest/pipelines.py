"""Chooses a job's pipeline on an agent: paced by the clock, fed through the job's code, or paced by that code."""

from __future__ import annotations

from collections.abc import Iterable

from agent.parsing import SourceColumn
from agent.programs.calls import JobDescription
from agent.runtime.function.versions import Versions
from agent.runtime.ingest.feed import Feed, merged_columns
from agent.runtime.ingest.mapped import MappedPipeline, Send
from agent.runtime.ingest.operator_pool import OperatorPool
from agent.runtime.ingest.pao_handles import PaoHandles
from agent.runtime.ingest.pipeline import OnSealed, Pipeline
from agent.runtime.ingest.self_paced import SelfPacedMappedPipeline, SelfPacedPipeline
from agent.runtime.messages.jobs import Enrolled
from agent.runtime.model.epoch import JobTerm

AnyPipeline = Pipeline | SelfPacedPipeline


def new_pipeline(
    versions: Versions,
    message: Enrolled,
    feeds: Iterable[Feed],
    wall_ms: int,
    ingest: OperatorPool,
    on_sealed: OnSealed,
    map_events: Send | None,
    handles: PaoHandles,
) -> AnyPipeline:
    """Builds the pipeline of an enrolled agent. `map_events` has the job's code map events, where it does."""
    if versions.newest.function.self_paced:
        paced = (message.app_id, versions, feeds, message.begins, wall_ms, ingest, on_sealed, handles)
        return SelfPacedPipeline(*paced) if map_events is None else SelfPacedMappedPipeline(*paced, map_events)
    feeds = tuple(feeds)
    term, streams = JobTerm(message.app_id, message.epoch.born_ms), [feed.stream for feed in feeds]
    resumption = None
    if feeds and feeds[0].start == "remembered" and feeds[0].app_id is not None:
        resumption = ingest.memory.resumption(message, streams, feeds[0].app_id)
    past = ingest.inherited.pop(message.app_id, None) or None
    clocked = (versions, message.job, feeds, message.begins, wall_ms, ingest, on_sealed, term, resumption, past)
    return Pipeline(*clocked) if map_events is None else MappedPipeline(*clocked, map_events)


def columns_read(versions: Versions, about: JobDescription | None, stream: str) -> tuple[SourceColumn, ...]:
    """The columns a job reads of a stream: those of its queries, or those that its code maps."""
    if about is not None and about.maps:
        return tuple(SourceColumn(name, tuple(name.split(".")), type_) for name, type_ in about.reads.items())
    return merged_columns(one.function.columns_of(stream) for one in versions)
