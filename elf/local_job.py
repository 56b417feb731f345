"""Runs a job's file over files, with a whole fleet embedded in this process: its elements, its code and its query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import msgspec

import query
from agent.control.messages import Analysed
from agent.programs.element_graph import FieldType
from agent.runtime.fleet.job_names import stage_app
from elf.errors import UsageError
from elf.local import LocalOptions, LocalRun, LocalSource, catalog_of
from elf.program.code_here import code_here
from elf.signing.submission import JobFile, contents_of
from elf.terminal.terminal import printable, tell

CREATOR = "local"


def _log(text: str) -> None:
    """Shows a line of the job's log."""
    tell(printable(text))


class FileAnalyser:
    """Plans the queries of a job over files, as an agent does over its streams."""

    def __init__(self, catalog: Mapping[str, query.Schema], options: LocalOptions) -> None:
        self._catalog = catalog
        self._options = options

    def analyse(
        self,
        text: str,
        *,
        mapped: bool = False,  # noqa: ARG002 (such jobs are refused)
        apps: Mapping[str, str] | None = None,
        types: Mapping[str, list[tuple[str, FieldType]]] | None = None,
        aggregates: Mapping[str, str] | None = None,  # noqa: ARG002 (such jobs are refused)
    ) -> Analysed:
        """The plan of a query over the files, or over the types of the job's events."""
        parsed = query.with_apps(query.parse(text), apps or {})
        named = [one for selected in query.streams_read(parsed) for one in query.patterns(selected)]
        reads_types = types is not None and all(any(query.selects(one, name) for name in types) for one in named)
        catalog = self._catalog
        if types is not None and reads_types:
            catalog = {name: query.Schema(dict(fields), open=False) for name, fields in types.items()}
        plan = query.analyze(
            parsed, catalog, max_groups=self._options.max_groups, beyond_groups=self._options.beyond_groups
        )
        return Analysed(query.format_query(parsed), msgspec.msgpack.encode(plan.to_wire()))


class LocalJobRun(LocalRun):
    """A job's file, ready to run over its sources; `stage`: what is shown is this stage, not the job's query.

    Raises `query.QueryError`, UsageError and ElfError.
    """

    def __init__(
        self, job: JobFile, sources: Sequence[LocalSource], options: LocalOptions, stage: str | None = None
    ) -> None:
        about = job.about
        if about.elements is None or about.maps or about.drives:
            raise UsageError(f"{printable(about.app)}: elf local runs jobs with elements, without map or drives")
        if stage is not None and stage not in about.stages:
            has = ", ".join(map(printable, about.stages)) or "none"
            raise UsageError(f"{printable(about.app)} has no stage {printable(stage)}: its stages are {has}")
        inputs, catalog = catalog_of(sources, options)
        contents = contents_of(FileAnalyser(catalog, options), job, about.app, CREATOR)
        plan = query.Plan.from_wire(contents[about.app].functions[0].plan)
        if stage is not None:
            own = query.Plan.from_wire(contents[stage_app(about.app, stage)].functions[0].plan)
            if own.apps:
                raise UsageError(
                    f"stage {printable(stage)} reads the results of another one; elf local computes those over types"
                    " and streams: submit the job to a fleet, and elf follow it"
                )
            plan = replace(own, types=None, elements=None if own.types is None else plan.elements)
        has_code = any(one.kind == "code" for one in about.elements.elements)
        self._code = partial(code_here, job.source, about.app, _log) if has_code else None
        self._begin(plan, inputs, catalog, {}, options)
