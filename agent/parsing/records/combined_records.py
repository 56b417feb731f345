"""Combined and common log lines taken apart."""

from __future__ import annotations

import numpy as np

from agent.parsing.columns import ParsedColumn
from agent.parsing.combined import COLUMNS, CombinedParser
from agent.parsing.formats import TIME, Format, SourceColumn
from agent.parsing.records.fields import Field, Kind, null_field, unkept_field
from agent.parsing.records.record_reader import Records, line_spans
from agent.sources import Block

_KINDS: dict[str, Kind] = {"string": "string", "integer": "integer", "timestamp": "timestamp"}


class CombinedRecords:
    """See `RecordReader`. Every line has its time."""

    def __init__(self, form: Format) -> None:
        self._parser = CombinedParser(form, [SourceColumn(name, (name,), "any") for name in COLUMNS])

    def read(self, block: Block, arrival_ms: int) -> Records:  # noqa: ARG002
        spans = line_spans(block.data)
        frame, malformed, rows = self._parser.read_lines(block.data)
        owners = rows.to_numpy().astype(np.int64)
        is_nothing = np.ones(len(spans), np.bool_)
        is_nothing[owners] = is_nothing[malformed.to_numpy()] = False
        fields = {column.name: _field(column) for column in self._parser.typed(frame)}
        return Records(spans, is_nothing, owners, frame[TIME], fields, is_complete=True)


def _field(column: ParsedColumn) -> Field:
    values = column.variants[0]
    if column.misfits is not None:
        return unkept_field(len(values))
    return Field(_KINDS[COLUMNS[column.name]], values) if values.null_count() < len(values) else null_field(len(values))
