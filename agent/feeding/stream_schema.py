"""Finds the columns of a stream for analysing queries: the union of the columns its files show."""

import hashlib
from collections.abc import Sequence

import query
from agent.parsing import Format, schema, sniff
from agent.sources import SourceError
from agent.sources.file.files import HEAD_BYTES
from agent.sources.reader import EventSource

FILES_LOOKED_AT_MAX = 32
"""Upper bound on files whose first lines are read; the files changed last show what comes next."""
KNOWN_HEADS_MAX = 256
_known_heads: dict[tuple[bytes, str, str | None], Format] = {}


def schema_of(formats: Sequence[Format]) -> query.Schema:
    """The columns of a stream whose files have these formats; without formats, any columns.

    Empty files count only if all are empty. A column with different types is `any`.
    """
    told = [form for form in formats if form.header is not None]
    columns: dict[str, str] = {}
    is_open = not told
    for form in told:
        found, has_others = schema(form)
        is_open |= has_others
        for name, kind in found.items():
            columns[name] = kind if columns.get(name, kind) == kind else "any"
    return query.Schema(columns, is_open)


def stream_schema(source: EventSource, kind: str = "auto", time_field: str | None = None) -> query.Schema:
    """The columns that the first lines of a source show. Blocks: reads up to 256 KiB of each file.

    Files that cannot be read, or fit no format, are left out here; reading them reports why.
    """
    formats = []
    for name, head in source.heads(FILES_LOOKED_AT_MAX, HEAD_BYTES):
        try:
            formats.append(_format(head, name, kind, time_field))
        except SourceError:
            continue
    return schema_of(formats)


def _format(head: bytes, file: str, kind: str, time_field: str | None) -> Format:
    """Like `sniff`, but remembers the formats of known beginnings, since every query asks for them."""
    key = (hashlib.blake2b(head).digest(), kind, time_field)
    form = _known_heads.get(key)
    if form is None:
        if len(_known_heads) >= KNOWN_HEADS_MAX:
            _known_heads.clear()
        form = _known_heads[key] = sniff(head, file, kind, time_field)
    return form
