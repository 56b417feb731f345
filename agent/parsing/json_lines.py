"""JSON lines, decoded straight into the columns that are needed.

A block is decoded in one call into structs generated from the needed paths. That call would read two objects
on one line as two events, and an object spread over several lines as one; so it counts only if every line
looks like one object. Otherwise, and after any error, the block is decoded line by line.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from agent.parsing.columns import (
    accepts,
    column_of_kinds,
    column_of_values,
    first_of,
    first_times,
    joined,
    parsed,
    same_times,
    times_of_kinds,
    timestamps_of_kinds,
)
from agent.parsing.fields import Field, field_of_kinds, field_of_values, object_field
from agent.parsing.formats import TIME, Format, Parsed, PassedOver, SourceColumn
from agent.parsing.json_paths import DECODE_ERRORS, Path, PathReader, can_name_a_field
from agent.parsing.known_fields import KnownFields
from agent.parsing.native import KINDS, Clauses, JsonScanner, ScannedLines, ScanTests, json_scanner
from agent.parsing.record_reader import Ints, Mask, Records, RecordSpans, is_empty, line_spans
from agent.parsing.sample import parse_sample, time_field
from agent.sources import Block

_NEWLINE, _RETURN, _OPEN, _CLOSE = b"\n\r{}"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_WHOLE: Path = ()
_TIMESTAMP = "timestamp"
_Counts = list[int | None]
_Values = dict[Path, list[Any]]
_NAMES_MAX = 1_000
_DEPTH_MAX = 8
_ESCAPE = re.compile(rb"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|u[dD][89a-fA-F]..|.)", re.DOTALL)


class JsonParser:
    """Parses JSON lines."""

    def __init__(self, form: Format, columns: Sequence[SourceColumn], clauses: Clauses = ()) -> None:
        self._columns = tuple(columns)
        self._time_paths = time_paths(form.time_field)
        self._reader = PathReader([*(column.path for column in columns), *self._time_paths])
        valued = dict.fromkeys(column.path for column in columns if column.type != _TIMESTAMP)
        timed = dict.fromkeys([*self._time_paths, *(column.path for column in columns if column.type == _TIMESTAMP)])
        self._places = {path: place for place, path in enumerate(valued)}
        self._time_places = {path: place for place, path in enumerate(timed, start=len(valued))}
        self._scanner = json_scanner(list(valued), list(timed), self._tests(clauses))

    def _tests(self, clauses: Clauses) -> ScanTests:
        """The tests of lines that the scanner makes: not where the time may be one of several."""
        fitting = [frozenset(KINDS)] * (len(self._places) + len(self._time_places))
        for column in self._columns:
            accepted = frozenset((int,)) if column.type == _TIMESTAMP else accepts(column.type)
            place = self._place(column)
            fitting[place] = fitting[place] & (accepted | {type(None)})
        times = [self._time_places[path] for path in self._time_paths]
        for place in times:
            fitting[place] = frozenset((int,))
        names = {column.name: self._place(column) for column in self._columns if column.type != _TIMESTAMP}
        return ScanTests(clauses if len(times) < 2 else (), names, times[0] if times else None, fitting)

    def _place(self, column: SourceColumn) -> int:
        return (self._time_places if column.type == _TIMESTAMP else self._places)[column.path]

    def parse(self, block: Block, arrival_ms: int) -> Parsed:
        """See `Parser`. Blank lines are nothing; what holds no object is malformed.

        Lines that the scanner does not find plain are parsed exactly, and their events follow the others.
        """
        scanned = self._scanner.scan(block.data) if self._scanner is not None else None
        if scanned is None:
            return self._parse_exactly(block.data, arrival_ms)
        plain = self._plain(scanned, arrival_ms)
        return joined(plain, self._parse_exactly(b"\n".join(scanned.hard), arrival_ms)) if scanned.hard else plain

    def _plain(self, scanned: ScannedLines, arrival_ms: int) -> Parsed:
        rows = scanned.rows
        values = {path: scanned.values(place) for path, place in self._places.items()}
        times = {path: scanned.values(place) for path, place in self._time_places.items()}
        columns = [
            timestamps_of_kinds(column.name, times[column.path], rows)
            if column.type == _TIMESTAMP
            else column_of_kinds(column.name, column.type, values[column.path], rows)
            for column in self._columns
        ]
        own = [times_of_kinds(times[path], rows) for path in self._time_paths]
        found = parsed(first_of(own) if own else same_times(arrival_ms, rows), columns, scanned.malformed)
        return replace(found, passed_over=self._passed_over(scanned, arrival_ms)) if scanned.rows_over else found

    def _passed_over(self, scanned: ScannedLines, arrival_ms: int) -> PassedOver:
        times = scanned.times_over()
        if times is None:
            times = same_times(arrival_ms, scanned.rows_over)
        valued = (
            column.name for column in self._columns if set(scanned.kinds_over(self._place(column))) - {type(None)}
        )
        return PassedOver(pl.DataFrame({TIME: times}), frozenset(valued))

    def _parse_exactly(self, data: bytes, arrival_ms: int) -> Parsed:
        events, malformed = decode_events(self._reader, data)
        values = self._reader.read(events)
        columns = [column_of_values(column.name, column.type, values[column.path]) for column in self._columns]
        times = event_times(self._time_paths, values, len(events), arrival_ms)
        return parsed(times, columns, malformed)


def event_times(paths: Sequence[Path], values: Mapping[Path, list[Any]], count: int, arrival_ms: int) -> pl.Series:
    """Int64 times of events by the first of these paths that has a usable one; of arrival where there are no paths."""
    if not paths:
        return same_times(arrival_ms, count)
    return first_times([column_of_values("", "any", values[path]) for path in paths])


def decode_events(reader: PathReader, data: bytes) -> tuple[list[Any], int]:
    """The events of whole lines, as far as the reader needs them, and how many lines were none."""
    events = decode_regular(reader, data)
    if events is not None:
        return events, 0
    events, counts = decode_singly(reader, data)
    return events, counts.count(0)


def decode_regular(reader: PathReader, data: bytes) -> list[Any] | None:
    """The events of lines that hold one object each; None where any holds something else, or its decoding fails."""
    try:
        events = reader.decode_lines(data)
    except DECODE_ERRORS:
        return None
    return events if _is_one_object_a_line(data, len(events)) else None


def decode_singly(reader: PathReader, data: bytes) -> tuple[list[Any], list[int | None]]:
    """The events of any lines, and how many there are on each: 0 where it is malformed, None where it is blank."""
    events: list[Any] = []
    counts: list[int | None] = []
    decode = reader.decode
    for line in data.split(b"\n"):
        try:
            events.append(decode(line))
            counts.append(1)
        except DECODE_ERRORS:
            if line and not line.isspace():
                repaired = _decode_repaired(reader, line)
                events += repaired
                counts.append(len(repaired))
            else:
                counts.append(None)
    return events, counts


def _decode_repaired(reader: PathReader, line: bytes) -> list[Any]:
    """The objects of a line that is not simply one; none if it is malformed."""
    line = line.strip(b"\0").removeprefix(_BYTE_ORDER_MARK)
    line = line.decode("utf-8", "replace").encode()
    if b"\\u" in line:
        line = _ESCAPE.sub(_without_lone_surrogate, line)
    try:
        return reader.decode_leniently(line)
    except DECODE_ERRORS:
        return []


def time_paths(field: str | None) -> list[tuple[str, ...]]:
    """A time field is a key as it stands or, with dots, else a path."""
    if field is None:
        return []
    return [(field,), tuple(field.split("."))] if "." in field else [(field,)]


def _is_one_object_a_line(data: bytes, count: int) -> bool:
    """Whether `data`, which was read as `count` objects, holds each on a line of its own.

    A line break between `}` and `{` can only lie between two objects, never inside one.
    """
    body = np.frombuffer(data, np.uint8)
    if not count:
        return True
    newlines = np.flatnonzero(body == _NEWLINE)
    if data[-1] != _NEWLINE:
        newlines = np.append(newlines, len(body))
    if len(newlines) != count or body[0] != _OPEN:
        return False
    last = body[newlines - 1]
    if (last == _RETURN).any():
        last = np.where(last == _RETURN, body[newlines - 2], last)
    return bool((last == _CLOSE).all() and (body[newlines[:-1] + 1] == _OPEN).all())


def _without_lone_surrogate(match: re.Match[bytes]) -> bytes:
    """Half a surrogate pair is no character; it becomes the replacement character."""
    escape = match.group()
    return b"\\ufffd" if len(escape) == 6 else escape


# Records for the archive.


class JsonRecords:
    """See `RecordReader`. A field `b` of an object `a` is called `a.b`.

    Fields become known as they appear. Once they are, a strict scanner reads them into columns, and leaves lines that
    have any other field, or are not plain, to a strict reader, which decodes into columns; what that refuses is
    decoded as dicts.
    """

    def __init__(self, form: Format) -> None:
        self._time_paths = time_paths(form.time_field)
        self._known = KnownFields()
        self._reader: PathReader | None = None
        self._scanner: JsonScanner | None = None

    def read(self, block: Block, arrival_ms: int) -> Records:
        spans = line_spans(block.data)
        scanned = self._scanner.scan(block.data) if self._scanner is not None else None
        read = None if scanned is None else self._read_scanned(scanned, block.data, spans, arrival_ms)
        return read or self._read_exactly(block.data, spans, arrival_ms)

    def _read_exactly(self, data: bytes, spans: RecordSpans, arrival_ms: int) -> Records:
        values, counts = self._read_known(data, len(spans)) or self._read_as_dicts(data)
        counts = counts[: len(spans)]
        is_nothing, owners = _owners(counts)
        times = event_times(self._time_paths, values, len(owners), arrival_ms)
        fields = {path: field_of_values(values[path]) for path in self._known.columns}
        return self._records(spans, is_nothing, owners, times, fields)

    def _read_known(self, data: bytes, lines: int) -> tuple[_Values, _Counts] | None:
        """The columns of lines that are one object each, all of whose fields are known; None for any others."""
        events = decode_regular(self._reader, data) if self._reader is not None else None
        if events is None or self._reader is None or len(events) != lines:
            return None
        values = self._reader.read(events)
        kinds = {path: set(map(type, values[path])) - {type(None)} for path in self._known.paths}
        if not self._known.explains(kinds):
            return None
        self._known.note_values(kinds)
        counts: _Counts = [1] * lines
        return {path: values.get(path) or [None] * lines for path in self._paths}, counts

    def _read_as_dicts(self, data: bytes) -> tuple[_Values, _Counts]:
        events, counts = decode_singly(PathReader([_WHOLE]), data)
        self._known.learn(events)
        if all(can_name_a_field(key) for path in self._paths for key in path):
            is_strict, timed = self._known.is_complete, self._read_time_paths
            self._reader = PathReader([*self._known.paths, *timed], is_strict=is_strict)
            self._scanner = json_scanner(self._known.paths, timed, is_strict=is_strict)
        return PathReader([_WHOLE, *self._paths]).read(events), counts

    @property
    def _paths(self) -> list[Path]:
        return list(dict.fromkeys([*self._known.paths, *self._time_paths]))

    @property
    def _read_time_paths(self) -> list[Path]:
        """Time fields to read once fields are known: where all are, one that is not among them has no value."""
        known = self._known
        return [path for path in self._time_paths if path in known.columns or not known.is_complete]

    def _read_scanned(self, scanned: ScannedLines, data: bytes, spans: RecordSpans, arrival_ms: int) -> Records | None:
        """The plain lines as they were scanned, and the others; None if any of them may bring new fields."""
        kinds = {path: scanned.values(place) for place, path in enumerate(self._known.paths)}
        times = {path: scanned.values(place) for place, path in enumerate(self._read_time_paths, start=len(kinds))}
        is_plain = ~is_empty(data, spans)
        hard = np.searchsorted(spans.starts, scanned.hard_starts)
        is_plain[hard] = False
        is_regular = self._known.is_complete or scanned.rows == len(spans)
        if not is_regular or is_plain.sum() != scanned.rows or not self._known.explains(kinds):
            return None
        others = self._read_others(scanned.hard)
        if others is None:
            return None
        self._known.note_values(kinds)
        values, counts = others
        is_blank, owners = _owners(counts)
        is_nothing = ~is_plain
        is_nothing[hard] = is_blank
        own = [times_of_kinds(times.get(path, {}), scanned.rows) for path in self._time_paths]
        first = first_of(own) if own else same_times(arrival_ms, scanned.rows)
        return self._records(
            spans,
            is_nothing,
            np.concatenate([np.flatnonzero(is_plain), hard[owners]]),
            pl.concat([first, event_times(self._time_paths, values, len(owners), arrival_ms)]),
            {path: field_of_kinds(kinds[path], scanned.rows, values[path]) for path in self._known.columns},
        )

    def _read_others(self, lines: Sequence[bytes]) -> tuple[_Values, _Counts] | None:
        """The columns of lines that are not plain; None if they bring new fields."""
        if not lines:
            return {path: [] for path in self._paths}, []
        data = b"\n".join(lines)
        read = self._read_known(data, len(lines))
        if read is not None:
            return read
        events, counts = decode_singly(PathReader([_WHOLE]), data)
        return (PathReader([_WHOLE, *self._paths]).read(events), counts) if self._known.knows_all(events) else None

    def _records(
        self, spans: RecordSpans, is_nothing: Mask, owners: Ints, times: pl.Series, fields: Mapping[Path, Field]
    ) -> Records:
        named = {".".join(path): field for path, field in fields.items()}
        objects = {".".join(path): object_field(len(owners)) for path in self._known.objects}
        return Records(spans, is_nothing, owners, times, named | objects, is_complete=self._known.is_complete)


def _owners(counts: _Counts) -> tuple[Mask, Ints]:
    """Which lines are nothing, and on which line each event is."""
    per_line = np.array([count or 0 for count in counts], np.int64)
    is_nothing = np.array([count is None for count in counts], np.bool_)
    return is_nothing, np.repeat(np.arange(len(counts), dtype=np.int64), per_line)


# Detection.


def json_evidence(sample: bytes) -> tuple[int, int]:
    return parse_sample(JsonParser(Format("json", None), []), sample)


def recognise_json(sample: bytes, file: str, given: str | None) -> Format:
    """The format of a file of JSON lines: its time field, and the columns seen in the sample."""
    form = Format("json", None, _names(sample))
    return Format("json", time_field(sample, file, form, given, lambda form: JsonParser(form, [])), form.header)


def json_schema(form: Format) -> tuple[dict[str, str], bool]:
    return dict.fromkeys(form.header or (), "any"), True


def _names(sample: bytes) -> tuple[str, ...]:
    """The keys of the objects in the sample, those of nested objects as paths with dots."""
    names: dict[str, None] = {}
    known: set[tuple[str, ...]] = set()
    for event in decode_events(PathReader([()]), sample)[0]:
        if type(event) is dict:
            _add_names(event, "", _DEPTH_MAX, names, known)
    return tuple(names)


def _add_names(
    entries: dict[str, Any], prefix: str, depth: int, names: dict[str, None], known: set[tuple[str, ...]]
) -> None:
    """Adds the keys of an object, unless another in its place has had the same, as most have; and those below it."""
    keys = (prefix, *entries)
    is_new = keys not in known
    if is_new:
        known.add(keys)
    for key, value in entries.items():
        if is_new:
            if len(names) >= _NAMES_MAX:
                return
            names[prefix + key] = None
        if type(value) is dict and depth > 1:
            _add_names(value, f"{prefix}{key}.", depth - 1, names, known)
