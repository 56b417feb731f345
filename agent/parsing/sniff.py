"""Tells a file's format and its time field from its first lines."""

from __future__ import annotations

from itertools import groupby

from agent.parsing.formats import LINE_FORMATS, Format, LineFormat
from agent.parsing.sample import is_binary
from agent.sources import SourceError

AUTO = "auto"
_EMPTY_KIND = "json"
"""Format of a file that is empty so far, when none is named."""
_SAMPLE_LINES = 500
_SHARE_MIN = 0.1
"""Least share of a sample's lines that must be events of a format: JSON objects and log lines are no coincidence."""
_CLEAR_SHARE = 9
"""Events for each malformed line past which no other format of a tier is tried: none reads as many of the lines."""


def sniff(head: bytes, file: str, kind: str = AUTO, time_field: str | None = None) -> Format:
    """The format of a file that starts with the lines `head`, of the given `kind` unless that is `auto`.

    Without `time_field`, the time is the first of TIME_FIELDS with a usable time in the head, else none.
    Raises SourceError when the head is no log text, fits no format, or has no usable time in the field
    asked for.
    """
    if kind != AUTO and kind not in LINE_FORMATS:
        raise SourceError(file, f"is to be read as {kind!r}, which is none of {', '.join((AUTO, *LINE_FORMATS))}")
    sample = b"\n".join(head.split(b"\n", _SAMPLE_LINES)[:_SAMPLE_LINES])
    if not sample.strip(b"\0 \t\r\n"):
        return Format(_EMPTY_KIND if kind == AUTO else kind, time_field)
    line_format = _detected(sample, file) if kind == AUTO else LINE_FORMATS[kind]
    return line_format.recognise(sample, file, time_field)


def schema(form: Format) -> tuple[dict[str, str], bool]:
    """The columns that a file of this format has, with their types, and whether it may have others.

    An empty file has no header, and any columns. Columns of CSV and TSV are `text`; those of JSON, which are the
    ones seen so far, `any`.
    """
    return form.traits.schema(form)


def _detected(sample: bytes, file: str) -> LineFormat:
    """The format that reads most of the lines, of the first tier in which one reads enough of them."""
    rows = sorted(LINE_FORMATS.values(), key=lambda row: row.tier)
    for tier, candidates in groupby(rows, key=lambda row: row.tier):
        if tier and is_binary(sample):
            raise SourceError(file, "is binary, not log text")
        found = []
        for row in candidates:
            found.append((row, *row.evidence(sample)))
            if found[-1][1] > _CLEAR_SHARE * found[-1][2]:
                break
        best, events, malformed = max(found, key=lambda one: one[1])
        if events and events >= _SHARE_MIN * (events + malformed):
            return best
    raise SourceError(
        file,
        "cannot tell the format: there are no JSON objects or combined log lines, and no CSV or TSV header"
        f" (it can be named: {', '.join(LINE_FORMATS)})",
    )
