"""The combined and common log formats of nginx and Apache, under nginx's names.

The native scanner reads plain lines. Of the others nearly all split at their quotes and spaces. A line is read that
way only if the pieces prove that the full pattern would read it alike; those that are left are matched against the
pattern. A line is good if host, time, request and status can be read; what else cannot be read, and `-`, is NULL.
Escapes stay as the server wrote them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
import polars as pl

from agent.parsing.columns import ParsedColumn, column_of_texts, joined, null_column, parsed
from agent.parsing.fields import Field, null_field, unkept_field
from agent.parsing.formats import TIME, Format, Parsed, PassedOver, SourceColumn
from agent.parsing.native import COMBINED_FIELDS, Clauses, ScannedLines, combined_scanner
from agent.parsing.record_reader import Ints, Mask, Records, RecordSpans, is_empty, line_spans
from agent.parsing.sample import parse_sample
from agent.parsing.times import parse_times
from agent.sources import Block

TIME_FIELD = "time"
COLUMNS: dict[str, Literal["string", "integer", "timestamp"]] = {
    **dict.fromkeys(COMBINED_FIELDS, "string"),
    TIME_FIELD: "timestamp",
    "status": "integer",
    "body_bytes_sent": "integer",
}

_KINDS: dict[type, pl.DataType] = {int: pl.Int64(), str: pl.String()}
_TEXTS = (
    "remote_addr",
    "remote_user",
    "request",
    "status",
    "body_bytes_sent",
    "http_referer",
    "http_user_agent",
)
_REQUEST_PARTS = ("method", "target", "protocol")

# A request may, if nothing else fits, hold quotes that are not escaped; a line's last quote may be missing.
_PATTERN = (
    r"^(?<remote_addr>[^ ]+) [^ ]+ (?<remote_user>.*?) \[(?<time>[^\[\]]*)\] "
    r'"(?<request>(?:[^"\\]|\\.)*|.*?)" (?<status>[0-9]{3}) (?<body_bytes_sent>[0-9]+|-)'
    r'(?: (?:"(?<http_referer>(?:[^"\\]|\\.)*)"(?: "(?<http_user_agent>(?:[^"\\]|\\.)*)(?:"|$))?)?|$)'
)
_REQUEST_PATTERN = r"^(?<method>[A-Za-z_-]+) (?<target>.+?)(?: (?<protocol>HTTP/[^ ]*))?$"

# The pieces between the quotes of a line.
_BEFORE, _REQUEST, _SIZES, _REFERER, _GAP, _AGENT, _REST = (pl.col(f"field_{index}") for index in range(7))
_BRACKETS = " [17/May/2015:10:05:03 +0000] "
_BEFORE_PARTS = ["host", "identity", "user_and_time"]
_HOST, _USER_AND_TIME, _STAMP = pl.col("host"), pl.col("user_and_time"), pl.col("stamp")
_REGULAR_TIME = _STAMP.str.slice(2, len(_BRACKETS) - 4)
_IS_REGULAR = (
    _STAMP.str.starts_with(" [")
    & _STAMP.str.ends_with("] ")
    & (_HOST != "")
    & _HOST.str.starts_with("\0").not_()
    & (_USER_AND_TIME.str.len_bytes() >= len(_BRACKETS))
    & _REQUEST.str.ends_with("\\").not_()
    & _SIZES.str.contains(r"^ [0-9]{3} (?:[0-9]+|-) ?$")
    & (_REFERER.is_null() | _SIZES.str.ends_with(" "))
)
_HAS_REGULAR_TAIL = _REFERER.is_null() | (
    (_GAP == " ") & _REST.is_not_null() & ~_REFERER.str.ends_with("\\") & ~_AGENT.str.ends_with("\\")
)
_REGULAR_TEXTS = {
    "remote_addr": _HOST,
    "remote_user": _USER_AND_TIME.str.head(-len(_BRACKETS)),
    "request": _REQUEST,
    "status": _SIZES.str.slice(1, 3),
    "body_bytes_sent": _SIZES.str.slice(5).str.strip_chars_end(" "),
    "http_referer": _REFERER,
    "http_user_agent": _AGENT,
}
_METHODS = ["GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH", "CONNECT", "TRACE", "PROPFIND"]
_METHOD, _TARGET, _PROTOCOL = map(pl.col, _REQUEST_PARTS)
_IS_REGULAR_REQUEST = (
    _METHOD.is_in(_METHODS)
    & (_TARGET != "")
    & _PROTOCOL.str.starts_with("HTTP/")
    & _PROTOCOL.str.contains(" ", literal=True).not_()
)


class CombinedParser:
    """Parses combined and common log lines; the latter have no referer and user agent."""

    def __init__(self, form: Format, columns: Sequence[SourceColumn], clauses: Clauses = ()) -> None:  # noqa: ARG002
        self._columns = tuple(columns)
        names = {column.field for column in columns}
        self._needs_parts = bool(names & {"method", "path", "query_string", "protocol"})
        self._texts = [name for name in _TEXTS if name in names or (name == "request" and self._needs_parts)]
        self._needs_tail = bool(names & {"http_referer", "http_user_agent"})
        self._scanned = [name for name in COLUMNS if name in names and name != TIME_FIELD]
        named = {column.name: column.field for column in columns if column.field in self._scanned}
        self._scanner = combined_scanner(self._scanned, _renamed(clauses, named))

    def parse(self, block: Block, arrival_ms: int) -> Parsed:  # noqa: ARG002 (every line has its time)
        """See `Parser`. Blank lines are nothing.

        Lines that the scanner does not find plain are parsed exactly, and their events follow the others.
        """
        scanned = self.scan(block.data)
        if scanned is None:
            return self._parse_exactly(block.data)
        frame = self.plain(scanned)
        plain = parsed(frame[TIME], self.typed(frame), 0)
        if scanned.rows_over:
            plain = replace(plain, passed_over=self._passed_over(scanned))
        return joined(plain, self._parse_exactly(b"\n".join(scanned.hard))) if scanned.hard else plain

    def scan(self, data: bytes) -> ScannedLines | None:
        """The plain lines of whole ones; None where there is no scanner for them."""
        return self._scanner.scan(data) if self._scanner is not None else None

    def plain(self, scanned: ScannedLines) -> pl.DataFrame:
        """Times and values of the events on plain lines."""

        def values(place: int, kind: type) -> pl.Series:
            found = scanned.values(place).get(kind)
            return pl.Series([None], dtype=_KINDS[kind]).new_from_index(0, scanned.rows) if found is None else found

        times = values(0, int)
        read = {
            name: values(place, int if COLUMNS[name] == "integer" else str)
            for place, name in enumerate(self._scanned, start=1)
        }
        return pl.DataFrame({TIME: times, **read})

    def _passed_over(self, scanned: ScannedLines) -> PassedOver:
        kinds = {name: set(scanned.kinds_over(place)) for place, name in enumerate(self._scanned, start=1)}
        valued = {name for name, found in kinds.items() if found - {type(None)}} | {TIME_FIELD}
        names = frozenset(column.name for column in self._columns if column.field in valued)
        return PassedOver(pl.DataFrame({TIME: scanned.times_over()}), names)

    def _parse_exactly(self, data: bytes) -> Parsed:
        frame, malformed = self.read_lines(data)[:2]
        return parsed(frame[TIME], self.typed(frame), len(malformed))

    def read_lines(self, data: bytes) -> tuple[pl.DataFrame, pl.Series, pl.Series]:
        """Times and texts of the events, which lines are malformed, and on which line each event is."""
        lines = _lines(data)
        frame, is_regular = self._read_regular(lines)
        rows, malformed = is_regular.arg_true(), pl.Series([], dtype=pl.UInt32)
        if frame.height < len(lines):
            others = (~is_regular).arg_true()
            matched, is_matched, is_blank = self._match(lines.gather(others))
            frame = frame.vstack(matched)
            rows = rows.append(others.filter(is_matched))
            malformed = others.filter(~is_matched & ~is_blank)
        texts = pl.col(pl.String)
        frame = frame.with_columns(pl.when(texts.is_in(["-", ""]).not_()).then(texts))
        if self._needs_parts:
            frame = frame.hstack(_request_parts(frame["request"]))
        return frame, malformed, rows

    def typed(self, frame: pl.DataFrame) -> list[ParsedColumn]:
        """The wanted columns of events that `read_lines` has read."""
        return [_column(frame, column) for column in self._columns]

    def _read_regular(self, lines: pl.Series) -> tuple[pl.DataFrame, pl.Series]:
        """Time and needed texts of the lines that split at quotes and spaces, and which lines those are."""
        pieces = lines.str.splitn('"', 7 if self._needs_tail else 4).struct.unnest()
        before = _BEFORE.str.splitn(" ", 3).struct.rename_fields(_BEFORE_PARTS)
        stamp = _BEFORE.str.tail(len(_BRACKETS))
        pieces = pieces.with_columns(before=before, stamp=stamp).unnest("before")
        condition = _IS_REGULAR & _HAS_REGULAR_TAIL if self._needs_tail else _IS_REGULAR
        read = pieces.select(
            condition.fill_null(False).alias("is_regular"),
            _REGULAR_TIME.alias("time"),
            **{name: _REGULAR_TEXTS[name] for name in self._texts},
        )
        times = parse_times(read["time"])
        is_regular = read["is_regular"] & times.is_not_null()
        frame = read.select(times.alias(TIME), *self._texts)
        return (frame if is_regular.all() else frame.filter(is_regular)), is_regular

    def _match(self, lines: pl.Series) -> tuple[pl.DataFrame, pl.Series, pl.Series]:
        """Time and needed texts of the lines that fit the pattern, which those are, and which are blank."""
        lines = lines.str.strip_chars_start("\0")
        groups = lines.str.extract_groups(_PATTERN).struct.unnest()
        frame = groups.select(parse_times(groups["time"]).alias(TIME), *self._texts)
        is_event = frame[TIME].is_not_null()
        return frame.filter(is_event), is_event, lines.str.strip_chars() == ""


def _renamed(clauses: Clauses, fields: Mapping[str, str]) -> Clauses:
    """The clauses with fields instead of the names of columns; those with a column that is no field are left out."""
    known = [clause for clause in clauses if all(test.column in fields for test in clause)]
    return [[test._replace(column=fields[test.column]) for test in clause] for clause in known]


def _lines(data: bytes) -> pl.Series:
    text = data.decode("utf-8", "replace")
    lines = pl.Series("line", [text.removesuffix("\n")]).str.split("\n").explode()
    return lines.str.strip_chars_end("\r") if "\r" in text else lines


def _request_parts(requests: pl.Series) -> pl.DataFrame:
    """The parts of request lines, NULL where a request does not have them."""
    parts = requests.str.splitn(" ", 3).struct.rename_fields(list(_REQUEST_PARTS)).struct.unnest()
    irregular = parts.select(_IS_REGULAR_REQUEST.fill_null(False).not_()).to_series()
    if irregular.any():
        rows = irregular.arg_true()
        matched = requests.gather(rows).str.extract_groups(_REQUEST_PATTERN).struct.unnest()
        parts = pl.DataFrame([parts[name].scatter(rows, matched[name]) for name in _REQUEST_PARTS])
    target = parts["target"].str.splitn("?", 2).struct.rename_fields(["path", "query_string"]).struct.unnest()
    return parts.drop("target").hstack(target.with_columns(pl.when(pl.all() != "").then(pl.all())))


def _column(frame: pl.DataFrame, column: SourceColumn) -> ParsedColumn:
    use = COLUMNS.get(column.field)
    if use is None:
        return null_column(column.name, frame.height)
    if use == "timestamp":
        return ParsedColumn(column.name, (frame[TIME].cast(pl.Datetime("ms", "UTC")).rename(column.name),))
    values = frame[column.field]
    if values.dtype == pl.Int64:
        return ParsedColumn(column.name, (values.rename(column.name),))
    return column_of_texts(column.name, use, values)


# Records for the archive.


class CombinedRecords:
    """See `RecordReader`. Every line has its time."""

    def __init__(self, form: Format) -> None:
        self._parser = CombinedParser(form, [SourceColumn(name, (name,), "any") for name in COLUMNS])

    def read(self, block: Block, arrival_ms: int) -> Records:  # noqa: ARG002
        spans = line_spans(block.data)
        scanned = self._parser.scan(block.data)
        is_plain = ~is_empty(block.data, spans)
        if scanned is not None:
            others = np.searchsorted(spans.starts, scanned.hard_starts)
            is_plain[others] = False
        if scanned is None or is_plain.sum() != scanned.rows:
            is_plain[:] = False
            return self._records(spans, is_plain, [], np.arange(len(spans)), block.data)
        return self._records(spans, is_plain, [self._parser.plain(scanned)], others, b"\n".join(scanned.hard))

    def _records(
        self, spans: RecordSpans, is_plain: Mask, read: list[pl.DataFrame], others: Ints, lines: bytes
    ) -> Records:
        """The plain lines, if any are `read`, and the other lines, whose numbers are `others`."""
        owners, is_nothing = [np.flatnonzero(is_plain)], ~is_plain
        if len(others) or not read:
            frame, malformed, rows = self._parser.read_lines(lines)
            owners.append(others[rows.to_numpy()])
            is_nothing[owners[-1]] = is_nothing[others[malformed.to_numpy()]] = False
            read = [*read, frame]
        columns = zip(*map(self._parser.typed, read), strict=True)
        return Records(
            spans,
            is_nothing,
            np.concatenate(owners),
            pl.concat([frame[TIME] for frame in read]),
            {parts[0].name: _kept_field(parts) for parts in columns},
            is_complete=True,
        )


def _kept_field(parts: Sequence[ParsedColumn]) -> Field:
    """The field of a column that was read in parts."""
    values = pl.concat([part.variants[0] for part in parts])
    if any(part.misfits is not None for part in parts):
        return unkept_field(len(values))
    return Field(COLUMNS[parts[0].name], values) if values.null_count() < len(values) else null_field(len(values))


# Detection.


def combined_evidence(sample: bytes) -> tuple[int, int]:
    return parse_sample(CombinedParser(Format("combined", TIME_FIELD), []), sample)


def recognise_combined(sample: bytes, file: str, given: str | None) -> Format:  # noqa: ARG001 (all are alike)
    return Format("combined", TIME_FIELD, tuple(COLUMNS))


def combined_schema(form: Format) -> tuple[dict[str, str], bool]:  # noqa: ARG001
    return dict(COLUMNS), False
