"""CSV records that are not simply lines."""

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.sources import irregular_records, read_record, records
from agent.sources.records import open_record

MAX = 1000


def irregular(data: bytes, bytes_max: int = MAX) -> list[tuple[bytes, tuple[bytes, ...] | None]]:
    return [(data[record.start : record.end], record.fields) for record in irregular_records(data, bytes_max)]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"a,b\n",
        b'"a",b\n',
        b'a,"b, c"\r\n',
        b'a,"say ""hi"""\n',
        b'"",""\n',
        b'"""",x\n',
        b'a,b\n"c"\n',
        b'"c"',
    ],
)
def test_a_line_with_its_quotes_in_place_is_regular(data: bytes) -> None:
    assert irregular(data) == []


@pytest.mark.parametrize(
    ("data", "fields"),
    [
        (b'5" disk,b\n', (b'5" disk', b"b")),
        (b'5" by 3",b\n', (b'5" by 3"', b"b")),
        (b'a,"b\nc",d\n', (b"a", b"b\nc", b"d")),
        (b'a,"b\r\nc"\r\n', (b"a", b"b\r\nc")),
        (b'"a\n""b"""', (b'a\n"b"',)),
        (b'a, "b"\n', (b"a", b' "b"')),
        (b'"ab"c,d\n', None),
        (b'a,"b\n', None),
    ],
)
def test_an_irregular_record_is_read_field_by_field(data: bytes, fields: tuple[bytes, ...] | None) -> None:
    assert irregular(data) == [(data, fields)]


def test_an_unterminated_quote_costs_its_own_line_only() -> None:
    data = b'1,"a\n2,b\n3,"c, d",e\n4,"f\n'
    assert irregular(data) == [(b'1,"a\n', None), (b'4,"f\n', None)]
    assert open_record(data, MAX) == data.index(b"4,")
    assert open_record(data, 3) is None


def test_a_record_is_bounded() -> None:
    data = b'1,"' + b"x\n" * 20 + b'",2\n3,4\n'
    assert len(irregular(data)) == 1
    assert irregular(data, 30)[0] == (b'1,"x\n', None)
    assert irregular(data, 30)[-1][0] == b'",2\n'


@pytest.mark.parametrize("line", [b'a","b\n', b'","b\n', b'a","b","c\n', b'"a","b\n'])
def test_every_field_is_read_a_few_times_however_many_lines_begin_a_record(
    line: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []
    read_field = records._RecordReader._field
    monkeypatch.setattr(
        records._RecordReader, "_field", lambda reader, start: calls.append(start) or read_field(reader, start)
    )
    data = line * 2_000
    assert len(irregular(data, len(data))) == 2_000
    assert len(calls) <= 2 * data.count(b'"')


@given(st.text(alphabet='ab,"\n\r', max_size=60).map(str.encode), st.integers(3, 80))
def test_what_became_of_earlier_records_changes_no_later_one(data: bytes, bytes_max: int) -> None:
    for record in irregular_records(data, bytes_max):
        assert record == read_record(data, record.start, bytes_max)


texts = st.text(alphabet='ab,"\r\n ', max_size=8)


@given(st.lists(texts, min_size=1, max_size=5))
def test_quoted_fields_are_what_csv_wrote(fields: list[str]) -> None:
    stream = io.StringIO()
    csv.writer(stream, quoting=csv.QUOTE_ALL, lineterminator="\r\n").writerow(fields)
    data = stream.getvalue().encode()
    record = read_record(data, 0, MAX)
    assert record.fields == tuple(field.encode() for field in fields)
    assert record.end == len(data)
    assert irregular(data) in ([], [(data, record.fields)])


@pytest.mark.fuzz
@given(st.text(alphabet='ab,"\n\r', max_size=60).map(str.encode))
def test_irregular_records_are_whole_lines_in_order(data: bytes) -> None:
    done = 0
    for record in irregular_records(data, MAX):
        assert done <= record.start < record.end <= len(data)
        assert record.start == 0 or data[record.start - 1 : record.start] == b"\n"
        assert record.end == len(data) or data[record.end - 1 : record.end] == b"\n"
        done = record.end


@pytest.mark.fuzz
@given(st.text(alphabet='ab,"', max_size=20))
def test_a_regular_line_is_what_csv_reads(line: str) -> None:
    if not irregular(line.encode()) and line:
        (row,) = csv.reader([line], strict=True)
        assert read_record(line.encode(), 0, MAX).fields == tuple(field.encode() for field in row)
