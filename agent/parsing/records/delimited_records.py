"""CSV and TSV taken apart: records may span lines."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from agent.parsing.delimited import DelimitedParser
from agent.parsing.formats import Format, SourceColumn
from agent.parsing.records.fields import Field
from agent.parsing.records.known_fields import COLUMNS_MAX, NAME_CHARACTERS_MAX
from agent.parsing.records.record_reader import Ints, Records, RecordSpans, is_empty, line_spans
from agent.sources import Block, Record


class DelimitedRecords:
    """See `RecordReader`. The header is a record like the others, and nothing."""

    def __init__(self, form: Format) -> None:
        names = [name for name in dict.fromkeys(form.header or ()) if 0 < len(name) <= NAME_CHARACTERS_MAX]
        self._names = names[:COLUMNS_MAX]
        self._is_complete = len(self._names) == len(form.header or ())
        self._parser = DelimitedParser(form, [SourceColumn(name, (name,), "string") for name in self._names])

    def read(self, block: Block, arrival_ms: int) -> Records:
        begin = self._parser.header_end(block)
        rows = block.data[begin:]
        odd = self._parser.odd_records(rows)
        texts, refused = self._parser.read_rows(rows, odd)
        regular, blank = _lines(rows, odd)
        spans, order = _in_order(rows, [regular, blank, _spans(odd)])
        read = np.delete(np.arange(len(regular)), refused)
        whole = [index for index, record in enumerate(odd) if record.fields is not None]
        owners = order[np.concatenate([read, np.array(whole, np.int64) + len(regular) + len(blank)])]
        is_nothing = np.zeros(len(spans), np.bool_)
        is_nothing[order[len(regular) : len(regular) + len(blank)]] = True
        if begin:
            end = begin - block.data[:begin].endswith(b"\n")
            spans = RecordSpans(np.append(0, spans.starts + begin), np.append(end, spans.ends + begin))
            is_nothing, owners = np.append(True, is_nothing), owners + 1
        fields = {name: Field("text", self._parser.texts_of(texts, name)) for name in self._names}
        return Records(spans, is_nothing, owners, self._parser.times(texts, arrival_ms), fields, self._is_complete)


def _lines(rows: bytes, odd: Sequence[Record]) -> tuple[RecordSpans, RecordSpans]:
    """The lines outside of odd records: those with content, and the others."""
    lines = line_spans(rows)
    if odd:
        starts = np.array([record.start for record in odd])
        ends = np.array([record.end for record in odd])
        nearest = np.searchsorted(starts, lines.starts, "right") - 1
        lines = _chosen(lines, ~((nearest >= 0) & (lines.starts < ends[nearest])))
    empty = is_empty(rows, lines)
    return _chosen(lines, ~empty), _chosen(lines, empty)


def _chosen(spans: RecordSpans, which: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> RecordSpans:
    return RecordSpans(spans.starts[which], spans.ends[which])


def _spans(odd: Sequence[Record]) -> RecordSpans:
    starts = [record.start for record in odd]
    return RecordSpans(np.array(starts, np.int64), np.array([record.end for record in odd], np.int64))


def _in_order(rows: bytes, parts: Sequence[RecordSpans]) -> tuple[RecordSpans, Ints]:
    """All spans in the order of their starts, and the place of each of the given ones among them."""
    starts = np.concatenate([part.starts for part in parts])
    ends = np.concatenate([part.ends for part in parts])
    order = np.argsort(starts, kind="stable")
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order))
    body = np.frombuffer(rows + b" ", np.uint8)
    ends = ends - ((ends > starts) & (body[ends - 1] == ord("\n")))
    return RecordSpans(starts[order], ends[order]), places
