"""Reads the first lines of a file for evidence of its format and of the field that has the time."""

from __future__ import annotations

from collections.abc import Callable

from agent.parsing.formats import Format, Parser
from agent.sources import Block, Origin, SourceError

TIME_FIELDS = ("timestamp", "@timestamp", "time", "ts", "created_at")
_CONTROL_BYTES = bytes({*range(32)} - {*b"\t\n\v\f\r\x1b"})
_CONTROL_SHARE_MAX = 0.02


def parse_sample(parser: Parser, sample: bytes) -> tuple[int, int]:
    """The number of events and of malformed lines in a sample."""
    result = parser.parse(Block(sample, Origin("", 0), 0), 0)
    return sum(frame.height for frame in result.frames), result.malformed


def is_binary(sample: bytes) -> bool:
    text = sample.lstrip(b"\0")  # a log truncated while its writer has it open starts with zeros
    return len(text) - len(text.translate(None, _CONTROL_BYTES)) > _CONTROL_SHARE_MAX * len(text)


def time_field(
    sample: bytes, file: str, form: Format, given: str | None, make_parser: Callable[[Format], Parser]
) -> str | None:
    """The given time field, or the first of TIME_FIELDS with a usable time in the sample, if any.

    Raises SourceError where the given field has no usable time.
    """

    def has_time(name: str) -> bool:
        return parse_sample(make_parser(Format(form.kind, name, form.header)), sample)[0] > 0

    if given is None:
        return next((name for name in TIME_FIELDS if name in (form.header or ()) and has_time(name)), None)
    if not has_time(given):
        raise SourceError(file, f"has no usable time in {given!r} in its first lines")
    return given
