"""Runs a job's file over files, with a whole fleet embedded in this process: its elements, its code and its query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import msgspec

import query
from agent.control.messages import Analysed
from agent.programs.element_graph import FieldType
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
        apps: Mapping[str, str] | None = None,  # noqa: ARG002
        types: Mapping[str, list[tuple[str, FieldType]]] | None = None,
    ) -> Analysed:
        """The plan of a query over the files, or over the types of the job's events."""
        parsed = query.parse(text)
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
    """A job's file, ready to run over its sources. Raises `query.QueryError`, UsageError and ElfError."""

    def __init__(self, job: JobFile, sources: Sequence[LocalSource], options: LocalOptions) -> None:
        about = job.about
        if about.elements is None or about.maps or about.drives or about.stages:
            raise UsageError(
                f"{printable(about.app)}: elf local runs jobs with elements, without map, drives or stages"
            )
        inputs, catalog = catalog_of(sources, options)
        contents = contents_of(FileAnalyser(catalog, options), job, about.app, CREATOR)[about.app]
        plan = query.Plan.from_wire(contents.functions[0].plan)
        has_code = any(one.kind == "code" for one in about.elements.elements)
        self._code = partial(code_here, job.source, about.app, _log) if has_code else None
        self._begin(plan, inputs, catalog, {}, options)
