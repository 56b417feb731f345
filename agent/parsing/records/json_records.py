"""JSON lines taken apart, into columns of all their scalar fields.

The fields become known as they appear. Once they are, a strict reader decodes straight into columns and refuses
whatever holds another field; then, and where a line is not simply one object, the block is decoded as dicts.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from agent.parsing.formats import Format
from agent.parsing.json_lines import decode_regular, decode_singly, event_times, time_paths
from agent.parsing.json_paths import Path, PathReader, can_name_a_field
from agent.parsing.records.fields import Field, field_of_values, object_field
from agent.parsing.records.known_fields import KnownFields
from agent.parsing.records.record_reader import Records, line_spans
from agent.sources import Block

_WHOLE: Path = ()
_Counts = list[int | None]
_Values = dict[Path, list[Any]]


class JsonRecords:
    """See `RecordReader`. A field `b` of an object `a` is called `a.b`."""

    def __init__(self, form: Format) -> None:
        self._time_paths = time_paths(form.time_field)
        self._known = KnownFields()
        self._reader: PathReader | None = None

    def read(self, block: Block, arrival_ms: int) -> Records:
        spans = line_spans(block.data)
        read = self._read_known(block.data, len(spans)) or self._read_as_dicts(block.data)
        values, counts = read[0], read[1][: len(spans)]
        per_line = np.array([count or 0 for count in counts], np.int64)
        count = int(per_line.sum())
        return Records(
            spans=spans,
            is_nothing=np.array([count is None for count in counts], np.bool_),
            owners=np.repeat(np.arange(len(counts), dtype=np.int64), per_line),
            times=event_times(self._time_paths, values, count, arrival_ms),
            fields=self._fields(values, count),
            is_complete=self._known.is_complete,
        )

    def _read_known(self, data: bytes, lines: int) -> tuple[_Values, _Counts] | None:
        """The columns of lines that are one object each, all of whose fields are known; None for any others."""
        events = decode_regular(self._reader, data) if self._reader is not None else None
        if events is None or self._reader is None or len(events) != lines:
            return None
        values = self._reader.read(events)
        if any(not self._known.explains(path, set(map(type, values[path]))) for path in self._known.paths):
            return None
        counts: _Counts = [1] * lines
        return values, counts

    def _read_as_dicts(self, data: bytes) -> tuple[_Values, _Counts]:
        events, counts = decode_singly(PathReader([_WHOLE]), data)
        self._known.learn(events)
        paths = [*self._known.paths, *self._time_paths]
        if all(can_name_a_field(key) for path in paths for key in path):
            self._reader = PathReader(paths, is_strict=self._known.is_complete)
        return PathReader([_WHOLE, *paths]).read(events), counts

    def _fields(self, values: _Values, count: int) -> dict[str, Field]:
        fields = {".".join(path): field_of_values(values[path]) for path in self._known.columns}
        return fields | {".".join(path): object_field(count) for path in self._known.objects}
