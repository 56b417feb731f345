"""Which kind of intake a job has on an agent: by the clock, by way of its code, or where its code says so."""

from __future__ import annotations

from collections.abc import Iterable

from agent.parsing import SourceColumn
from agent.programs.calls import JobDescription
from agent.runtime.function.versions import Versions
from agent.runtime.ingest.feed import Feed, merged_columns
from agent.runtime.ingest.mapped import MappedPipeline, Send
from agent.runtime.ingest.operator_pool import OperatorPool
from agent.runtime.ingest.pao_handles import PaoHandles
from agent.runtime.ingest.pipeline import Pipeline
from agent.runtime.ingest.self_paced import SelfPacedMappedPipeline, SelfPacedPipeline
from agent.runtime.messages.jobs import Enrolled

AnyIntake = Pipeline | SelfPacedPipeline


def new_intake(
    versions: Versions,
    message: Enrolled,
    feeds: Iterable[Feed],
    wall_ms: int,
    ingest: OperatorPool,
    map_events: Send | None,
    held: PaoHandles,
) -> AnyIntake:
    """`map_events` has the job's code map events, where it does."""
    if versions.newest.function.drives:
        about_it = (message.app_id, versions, feeds, message.begins, wall_ms, ingest, held)
        return SelfPacedPipeline(*about_it) if map_events is None else SelfPacedMappedPipeline(*about_it, map_events)
    if map_events is not None:
        return MappedPipeline(versions, message.job, feeds, message.begins, wall_ms, ingest, map_events)
    return Pipeline(versions, message.job, feeds, message.begins, wall_ms, ingest)


def columns_read(versions: Versions, about: JobDescription | None, stream: str) -> tuple[SourceColumn, ...]:
    """What a job wants of the events of a stream: what its queries read, or what its code maps."""
    if about is not None and about.maps:
        return tuple(SourceColumn(name, tuple(name.split(".")), type_) for name, type_ in about.reads.items())
    return merged_columns(one.function.columns_of(stream) for one in versions)
