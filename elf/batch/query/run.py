"""Runs a query over an archive: analysed as agents do it, computed by Spark, completed by the job master's code."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import query
from agent import Submit, WindowResult
from agent.feeding.stream_schema import schema_of
from agent.feeding.table_reading import table_schema
from agent.parsing import Format
from agent.runtime.master.state import JobState
from agent.runtime.model.epoch import JobEpoch
from agent.runtime.model.panes import END, FIRST_PANE, Run
from agent.runtime.upstream.tables import FileTable as LookupTable
from elf.batch.query.column_states import InexactError
from elf.batch.query.coprocessor import CoprocessorPlan, RegionJob
from elf.batch.query.joined_streams import joined_plan
from elf.batch.query.native import NativePlan, native_plan
from elf.batch.query.partial_states import StateCombiner
from elf.batch.table.table import ArchiveTable, Range
from elf.errors import ElfError
from elf.local import WITHIN_IGNORED, read_tables
from overlay import app_id, group_id
from query.spark import NotExactError

APP = "batch"
OWN_STREAMS = "@"
"""Prefix of the streams that ELF itself writes, which no pattern selects."""


@dataclass(frozen=True, slots=True)
class BatchOptions:
    """Options of a run: events from `since_ms` on, before `until_ms` (epoch ms).

    `tables`: the files of look-up tables, by name.
    """

    since_ms: int | None = None
    until_ms: int | None = None
    tables: Mapping[str, str] = field(default_factory=dict)
    max_groups: int = query.GROUPS_DEFAULT
    beyond_groups: query.BeyondGroups = "other"


class BatchRun:
    """A query, checked and ready to run over an archive.

    It is given as text, or as the plan that a job ran, without look-up tables. Raises `query.QueryError` for the query,
    UsageError for look-up tables that are not there. `columns` are the names of the result's columns.
    """

    def __init__(self, wanted: str | query.Plan, table: ArchiveTable, options: BatchOptions) -> None:
        self.table = table
        self._options = options
        self._lookups: Mapping[str, LookupTable] = {}
        self.not_exact = ""
        """Reason why Spark cannot compute the plan exactly, "" where it can."""
        self.warnings: list[str] = []
        self.plan, streams = (
            (wanted, _streams_of_agents(table)) if isinstance(wanted, query.Plan) else self._analysed(wanted)
        )
        self.computed = query.without_keys(self.plan, counts_kept=isinstance(wanted, query.Plan))
        """The plan as an archive computes it, where no event has to travel."""
        self.columns = query.output_names(self.plan)
        self.streams = sorted(stream for stream in streams if query.selects(self.plan.streams_read, stream))

    def _analysed(self, text: str) -> tuple[query.Plan, Iterable[str]]:
        """The plan, and the streams it may read."""
        parsed, table, options = query.parse(text), self.table, self._options
        if others := query.apps(parsed):
            hint = 'ask the fleet for them: elf query "..."'
            raise query.QueryError("an archive has no results of other jobs", text, others[0].span, hint=hint)
        self._lookups = read_tables(parsed, options.tables)
        catalog = _catalog(table, query.streams_read(parsed))
        lookups = {name: table_schema(rows) for name, rows in self._lookups.items()}
        plan = query.analyze(
            parsed, catalog, lookups, max_groups=options.max_groups, beyond_groups=options.beyond_groups
        )
        if plan.within is not None:
            self.warnings.append(WITHIN_IGNORED)
        return plan.without_within(), catalog

    def results(self) -> Iterator[WindowResult]:
        """Computes everything, then yields the windows in order.

        Raises ElfError after the last window before one with too many groups, where that is an error.
        """
        plan = self.execution_plan
        if isinstance(plan, NativePlan):
            try:
                return self.finished(plan.combined())
            except InexactError:
                plan = self.coprocessor_plan
        return self.finished(plan.combined())

    def finished(self, combined: StateCombiner) -> Iterator[WindowResult]:
        """Yields the windows of the combined state of all rows, as `results` does."""
        master = self._master()
        contributors = _enrol(master, self.table.agents(self.streams))
        run = Run(FIRST_PANE, END, contributors, combined.state(), combined.counted)
        yield from master.publish(run).values()
        if master.failure is not None:
            raise ElfError(master.failure)

    @cached_property
    def execution_plan(self) -> NativePlan | CoprocessorPlan:
        """The native plan where Spark computes exactly, else the coprocessor plan. Raises ElfError for elements that an
        archive cannot compute.
        """
        if self.computed.elements is not None:
            return self.coprocessor_plan
        try:
            return native_plan(self.computed, self.table, self.wanted)
        except NotExactError as error:
            self.not_exact = str(error)
            return self.coprocessor_plan

    @property
    def coprocessor_plan(self) -> CoprocessorPlan:
        """The plan computed by agents' code in the regions, even where Spark could compute it natively."""
        if self.computed.elements is not None:
            return joined_plan(self.computed, self.table, self.wanted)
        options = self._options
        job = RegionJob(self.computed.to_wire(), options.since_ms, options.until_ms, self._lookups)
        return CoprocessorPlan(job, self.table, self.wanted)

    def _master(self) -> JobState:
        job = Submit(
            app_id=app_id(APP, b""),
            name=APP,
            stream=self.computed.stream,
            plan=replace(self.computed, elements=None).to_wire(),
            since_ms=self._options.since_ms,
            until_ms=self._options.until_ms,
        )
        node = group_id(APP)
        return JobState(job, JobEpoch(0, 1, node), node)

    @property
    def wanted(self) -> Range:
        """Range of the rows that the query reads."""
        return Range(frozenset(self.streams), self._options.since_ms, self._options.until_ms)


def _catalog(table: ArchiveTable, wanted: Collection[str]) -> dict[str, query.Schema]:
    """The schema of each stream of a table, as its segments describe it; of ELF's own streams only the wanted ones."""
    formats: dict[str, dict[Format, None]] = {}
    for one in table.segments():
        segment = one.segment
        if segment.stream.startswith(OWN_STREAMS) and segment.stream not in wanted:
            continue
        # The header of JSON is the fields that were seen.
        fields = tuple(segment.columns)
        seen = (replace(form, header=fields) if form.traits.has_open_columns else form for form in segment.formats)
        formats.setdefault(segment.stream, {}).update(dict.fromkeys(seen))
    return {stream: schema_of(list(forms)) for stream, forms in formats.items()}


def _streams_of_agents(table: ArchiveTable) -> list[str]:
    """Streams written by agents; ELF's own streams are left out."""
    return [stream for stream in table.streams() if not stream.startswith(OWN_STREAMS)]


def _enrol(master: JobState, agents: Sequence[str]) -> int:
    """Puts the agents on the roster; returns their numbers as a bitmap."""
    numbers = 0
    for name in agents:
        enrolled = master.enrol(group_id(f"archive {name}"), name, works=True)
        if enrolled is None or enrolled.number is None:
            raise ElfError(f"the archive has rows of more agents than a result can name: {len(agents):,}")
        numbers |= 1 << enrolled.number
    return numbers
