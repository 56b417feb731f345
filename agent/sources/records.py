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
    done = 0
    for start in _irregular_lines(data):
        if start >= done:
            record = read_record(data, start, bytes_max)
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
    limit = min(len(data), start + bytes_max)
    line_end = data.find(b"\n", start) + 1 or len(data)
    fields: list[bytes] = []
    position = start
    while True:
        if data[position : position + 1] == b'"':
            close = _closing_quote(data, position, limit)
            if close is None:
                return Record(start, line_end, None, open=limit == len(data))
            fields.append(data[position + 1 : close].replace(b'""', b'"'))
            position = close + 1
        else:
            end = _field_end(data, position)
            fields.append(data[position:end])
            position = end
        rest = data[position : position + 2]
        if rest[:1] == b",":
            position += 1
        elif not rest or rest[:1] == b"\n" or rest == b"\r\n":
            return Record(start, min(len(data), position + 1 + (rest == b"\r\n")), tuple(fields))
        else:
            return Record(start, line_end, None)


def _closing_quote(data: bytes, opening: int, limit: int) -> int | None:
    quote = data.find(b'"', opening + 1, limit)
    while quote >= 0 and data[quote + 1 : quote + 2] == b'"':
        quote = data.find(b'"', quote + 2, limit)
    return None if quote < 0 else quote


def _field_end(data: bytes, start: int) -> int:
    """End of an unquoted field: the next comma or line end."""
    line_end = data.find(b"\n", start)
    line_end = len(data) if line_end < 0 else line_end
    comma = data.find(b",", start, line_end)
    if comma >= 0:
        return comma
    return line_end - (data[line_end - 1 : line_end] == b"\r" and line_end < len(data) and line_end > start)
