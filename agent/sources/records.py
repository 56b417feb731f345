"""Finds the ends of CSV records that are not simply lines.

Nearly every record is one line whose quotes are in place; lines that are not are found at once, with array
arithmetic. Only those (fields with a line break inside, stray or unterminated quotes) are walked through
field by field. A quote opens a field only at the field's start, so `5" disk` is text; a quoted field must
be followed by a comma or the line's end, so an unterminated quote is noticed at the next quote that does
not fit, at the latest after `bytes_max`, and costs its own line only.
"""

from collections.abc import Iterator
from dataclasses import dataclass

_NEWLINE, _RETURN, _QUOTE, _COMMA = b'\n\r",'
_MALFORMED, _OPEN = -1, -2
"""Instead of a record's end: characters follow a closing quote; a quoted field runs on to the end of the block."""


@dataclass(frozen=True, slots=True)
class Record:
    """The bytes `start:end` of a block, line end included, and their fields.

    Malformed, and then its first line only, when `fields` is None. It is `open` when that is because a
    quoted field runs on to the end of the block, so that more data might still close it.
    """

    start: int
    end: int
    fields: tuple[bytes, ...] | None
    open: bool = False


def irregular_records(data: bytes, bytes_max: int) -> Iterator[Record]:
    """The records of `data` that are not one line with its quotes in place, in order. O(len(data)).

    `data` starts at a record; none is longer than `bytes_max`.
    """
    done, reader = 0, _RecordReader(data, bytes_max)
    for start in _irregular_lines(data):
        if start >= done:
            record = reader.read(start)
            yield record
            done = record.end


def open_record(data: bytes, bytes_max: int) -> int | None:
    """The start of the first record that more data might still close, if there is one."""
    return next((record.start for record in irregular_records(data, bytes_max) if record.open), None)


def _irregular_lines(data: bytes) -> list[int]:
    """Starts of the lines with an odd quote that opens no field, or an even one that closes none."""
    if b'"' not in data:
        return []
    import numpy as np  # here, so that configurations are read without it

    array = np.frombuffer(b"\n" + data + b"\n\n", np.uint8)  # so every byte has neighbours; offsets are one more
    newlines = np.flatnonzero(array == _NEWLINE)
    quotes = np.flatnonzero(array == _QUOTE)
    before, after, second = array[quotes - 1], array[quotes + 1], array[quotes + 2]
    line = np.searchsorted(newlines, quotes) - 1
    is_opening = (np.arange(len(quotes)) - np.searchsorted(line, line)) % 2 == 0
    opens = (before == _COMMA) | (before == _NEWLINE) | (before == _QUOTE)
    closes = (after == _COMMA) | (after == _NEWLINE) | (after == _QUOTE)
    closes |= (after == _RETURN) & (second == _NEWLINE)
    last_of_line = np.append(line[1:] != line[:-1], True)
    fits = np.where(is_opening, opens & ~last_of_line, closes)
    return [int(start) for start in newlines[np.unique(line[~fits])]]


def read_record(data: bytes, start: int, bytes_max: int) -> Record:
    """The record at `start`, field by field."""
    return _RecordReader(data, bytes_max).read(start)


class _RecordReader:
    """Reads records of one block field by field.

    Lines such as `a","b` each begin a record that runs through all the others to the block's end, and is malformed for
    that. Their chains of fields meet in the next line, so what became of a chain is kept: to read records from all
    lines takes O(len(data)).
    """

    def __init__(self, data: bytes, bytes_max: int) -> None:
        self._data = data
        self._bytes_max = bytes_max
        self._ends: dict[int, int] = {}
        """By the start of a field of a record that was not whole, the end of that record, _MALFORMED or _OPEN."""
        self._line = range(0)
        """From where the last line end was looked for, and where it was found."""

    def read(self, start: int) -> Record:
        fields: list[bytes] = []
        starts: list[int] = []
        position, end, known = start, None, self._ends.get(start)
        while end is None and known is None:
            starts.append(position)
            field, position, end = self._field(position)
            fields.append(field)
            known = self._ends.get(position) if end is None else None
        end = known if end is None else end
        assert end is not None
        if 0 <= end <= start + self._bytes_max:
            if known is None:
                return Record(start, end, tuple(fields))
            self._ends.clear()  # an earlier record was too long that ends here, too: its fields were not kept
            return self.read(start)
        self._ends.update(dict.fromkeys(starts, end))
        runs_on = end == _OPEN and len(self._data) <= start + self._bytes_max
        return Record(start, min(self._newline(start) + 1, len(self._data)), None, open=runs_on)

    def _field(self, start: int) -> tuple[bytes, int, int | None]:
        """A field, where the next one starts, and the record's end if there is none."""
        data = self._data
        if data[start : start + 1] == b'"':
            close = _closing_quote(data, start, len(data))
            if close is None:
                return b"", start, _OPEN
            field, position = data[start + 1 : close].replace(b'""', b'"'), close + 1
        else:
            position = self._field_end(start)
            field = data[start:position]
        rest = data[position : position + 2]
        if rest[:1] == b",":
            return field, position + 1, None
        if rest[:1] in (b"", b"\n") or rest == b"\r\n":
            end = min(len(data), position + 1 + (rest == b"\r\n"))
            return field, end, end
        return field, position, _MALFORMED

    def _field_end(self, start: int) -> int:
        """End of an unquoted field: the next comma or line end."""
        data, line_end = self._data, self._newline(start)
        comma = data.find(b",", start, line_end)
        if comma >= 0:
            return comma
        return line_end - (data[line_end - 1 : line_end] == b"\r" and line_end < len(data) and line_end > start)

    def _newline(self, start: int) -> int:
        """The line end at or after `start`, which is looked for once a line however many fields it has."""
        if not self._line.start <= start <= self._line.stop or not self._line:
            found = self._data.find(b"\n", start)
            self._line = range(start, found if found >= 0 else len(self._data))
        return self._line.stop


def _closing_quote(data: bytes, opening: int, limit: int) -> int | None:
    quote = data.find(b'"', opening + 1, limit)
    while quote >= 0 and data[quote + 1 : quote + 2] == b'"':
        quote = data.find(b'"', quote + 2, limit)
    return None if quote < 0 else quote
