"""Telling a file's format and its time field from its first lines."""

import re
from typing import Any

from agent.parsing.combined import COLUMNS, CombinedParser
from agent.parsing.delimited import SEPARATORS, DelimitedParser, header_record
from agent.parsing.formats import KINDS, Format, Parsed, Parser
from agent.parsing.json_lines import JsonParser, decode_events
from agent.parsing.json_paths import PathReader
from agent.sources import LINE_BYTES_MAX, Block, Origin, SourceError, read_record

AUTO = "auto"
TIME_FIELDS = ("timestamp", "@timestamp", "time", "ts", "created_at")

_SAMPLE_LINES = 500
_SHARE_MIN = 0.1  # of the lines: JSON objects and combined log lines are not there by chance
_CONTROL_BYTES = bytes({*range(32)} - {*b"\t\n\v\f\r\x1b"})
_CONTROL_SHARE_MAX = 0.02
_NO_NAME = re.compile(r"^\d|\d:\d\d|.{101}|[{}<>]", re.DOTALL)
_JSON_NAMES_MAX = 1_000
_JSON_DEPTH_MAX = 8


def sniff(head: bytes, file: str, kind: str = AUTO, time_field: str | None = None) -> Format:
    """The format of a file that starts with the lines `head`, of the given `kind` unless that is `auto`.

    Without `time_field`, the time is the first of TIME_FIELDS with a usable time in the head, else none.
    Raises SourceError when the head is no log text, fits no format, or has no usable time in the field
    asked for.
    """
    if kind not in (AUTO, *KINDS):
        raise SourceError(file, f"is to be read as {kind!r}, which is none of {', '.join((AUTO, *KINDS))}")
    sample = b"\n".join(head.split(b"\n", _SAMPLE_LINES)[:_SAMPLE_LINES])
    if not sample.strip(b"\0 \t\r\n"):
        return Format("json" if kind == AUTO else kind, time_field)
    if kind == AUTO:
        kind = _line_kind(sample) or _table_kind(sample, file)
    if kind == "combined":
        return Format(kind, "time", tuple(COLUMNS))
    header = _json_names(sample) if kind == "json" else _header(sample, kind, file)
    return Format(kind, _time_field(sample, file, kind, header, time_field), header)


def schema(form: Format) -> tuple[dict[str, str], bool]:
    """The columns that a file of this format has, with their types, and whether it may have others.

    Nothing is known of an empty file, which has no header. Columns of CSV and TSV are `text`; those of JSON, which
    are the ones that were seen, `any`.
    """
    if form.kind == "combined":
        return dict(COLUMNS), False
    is_open = form.kind == "json" or form.header is None
    return dict.fromkeys(form.header or (), "any" if is_open else "text"), is_open


def _parse(parser: Parser, sample: bytes) -> tuple[int, int]:
    """Events and malformed lines in the sample."""
    result: Parsed = parser.parse(Block(sample, Origin("", 0), 0), 0)
    return sum(frame.height for frame in result.frames), result.malformed


def _line_kind(sample: bytes) -> str | None:
    """The kind that reads most of the lines, if that is not too few."""
    found = {
        "json": _parse(JsonParser(Format("json", None), []), sample),
        "combined": _parse(CombinedParser([]), sample),
    }
    kind = max(found, key=lambda name: found[name][0])
    events, malformed = found[kind]
    return kind if events and events >= _SHARE_MIN * (events + malformed) else None


def _table_kind(sample: bytes, file: str) -> str:
    if _is_binary(sample):
        raise SourceError(file, "is binary, not log text")
    for kind in ("tsv", "csv"):
        if _is_table(sample, SEPARATORS[kind]):
            return kind
    raise SourceError(
        file,
        "cannot tell the format: there are no JSON objects or combined log lines, and no CSV or TSV header"
        f" (it can be named: {', '.join(KINDS)})",
    )


def _is_binary(sample: bytes) -> bool:
    text = sample.lstrip(b"\0")  # a log cut off under its writer's feet starts with zeros
    return len(text) - len(text.translate(None, _CONTROL_BYTES)) > _CONTROL_SHARE_MAX * len(text)


def _is_table(sample: bytes, separator: bytes) -> bool:
    """Whether the first line can be a header, and most of the lines after it have fields like it."""
    record = header_record(sample, separator)
    names = [name.decode("utf-8", "replace").strip() for name in record.fields or ()]
    if len(names) < 2 or names.count("") > 1 or any(map(_NO_NAME.search, names)):
        return False
    rows = [line for line in sample[record.end :].split(b"\n") if line.strip()]
    if separator == b",":
        fields = [read_record(row, 0, LINE_BYTES_MAX).fields for row in rows]
        similar = sum(row is None or len(row) == len(names) for row in fields)
    else:
        similar = sum(separator in row for row in rows)
    return 2 * similar >= len(rows)


def _header(sample: bytes, kind: str, file: str) -> tuple[str, ...]:
    if _is_binary(sample):
        raise SourceError(file, "is binary, not log text")
    names = header_record(sample, SEPARATORS[kind]).fields or ()
    return tuple(name.decode("utf-8", "replace").strip() for name in names)


def _json_names(sample: bytes) -> tuple[str, ...]:
    """The keys of the objects in the sample, those of nested objects as paths with dots."""
    names: dict[str, None] = {}
    for event in decode_events(PathReader([()]), sample)[0]:
        _add_names(event, "", _JSON_DEPTH_MAX, names)
    return tuple(names)


def _add_names(entry: Any, prefix: str, depth: int, names: dict[str, None]) -> None:
    if type(entry) is not dict or not depth:
        return
    for key, value in entry.items():
        if len(names) >= _JSON_NAMES_MAX:
            return
        names[prefix + key] = None
        _add_names(value, f"{prefix}{key}.", depth - 1, names)


def _time_field(sample: bytes, file: str, kind: str, header: tuple[str, ...], given: str | None) -> str | None:
    if given is None:
        return next((name for name in TIME_FIELDS if name in header and _has_time(sample, kind, header, name)), None)
    if kind != "json" and given not in header:
        raise SourceError(file, f"has no column {given!r} for the time; its columns are {', '.join(header)}"[:500])
    if not _has_time(sample, kind, header, given):
        raise SourceError(file, f"has no usable time in {given!r} in its first lines")
    return given


def _has_time(sample: bytes, kind: str, header: tuple[str, ...], name: str) -> bool:
    form = Format(kind, name, header)
    return _parse(JsonParser(form, []) if kind == "json" else DelimitedParser(form, []), sample)[0] > 0
