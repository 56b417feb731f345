"""What is known of an archive's streams before anything is read: how their lines are read, and what they hold."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING

import query
from agent.feeding.stream_schema import schema_of

if TYPE_CHECKING:
    from agent.parsing import Format
    from elf.batch.table.table import Table

OWN_STREAMS = "@"
"""So begin the names of streams that ELF itself writes: no pattern stands for them."""


def catalog_of(table: Table, wanted: Collection[str]) -> dict[str, query.Schema]:
    """What each stream of a table holds, as its segments tell: of ELF's own only those wanted."""
    found: dict[str, dict[Format, None]] = {}
    for one in table.segments():
        segment = one.segment
        if segment.stream.startswith(OWN_STREAMS) and segment.stream not in wanted:
            continue
        # Of JSON the fields that were seen are its header.
        fields = tuple(segment.columns)
        seen = (replace(form, header=fields) if form.traits.has_open_columns else form for form in segment.formats)
        found.setdefault(segment.stream, {}).update(dict.fromkeys(seen))
    return {stream: schema_of(list(formats)) for stream, formats in found.items()}
