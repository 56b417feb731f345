"""Times: every promised form, equal to what datetime makes of it, whatever stands beside it."""

import datetime as dt

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.parsing import parse_time, parse_times

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
MILLISECOND = dt.timedelta(milliseconds=1)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05+00:00"),
        ("2026-01-02t03:04:05z", "2026-01-02T03:04:05+00:00"),
        ("2026-01-02T03:04:05.678Z", "2026-01-02T03:04:05.678+00:00"),
        ("2026-01-02T03:04:05.6Z", "2026-01-02T03:04:05.600+00:00"),
        ("2026-01-02T03:04:05.678999999Z", "2026-01-02T03:04:05.678+00:00"),
        ("2026-01-02 03:04:05,678", "2026-01-02T03:04:05.678+00:00"),
        ("2026-01-02T03:04:05+02:00", "2026-01-02T01:04:05+00:00"),
        ("2026-01-02T03:04:05-0330", "2026-01-02T06:34:05+00:00"),
        ("2026-01-02T03:04:05.5+02", "2026-01-02T01:04:05.500+00:00"),
        ("2026-01-02T03:04Z", "2026-01-02T03:04:00+00:00"),
        ("2026-01-02", "2026-01-02T00:00:00+00:00"),
        ("2010-12-01 08:26:00", "2010-12-01T08:26:00+00:00"),
        ("17/May/2015:10:05:03 +0000", "2015-05-17T10:05:03+00:00"),
        ("01/Aug/1995:00:00:01 -0400", "1995-08-01T04:00:01+00:00"),
        ("Wed Aug 27 13:08:45 +0000 2008", "2008-08-27T13:08:45+00:00"),
        ("2024-02-29T00:00:00Z", "2024-02-29T00:00:00+00:00"),
        ("2016-12-31T23:59:60Z", "2017-01-01T00:00:00+00:00"),
        ("1969-12-31T23:59:59.999Z", "1969-12-31T23:59:59.999+00:00"),
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00+00:00"),
        ("9999-12-31T23:59:59.999Z", "9999-12-31T23:59:59.999+00:00"),
        ("1420070400", "2015-01-01T00:00:00+00:00"),
        ("1420070400.25", "2015-01-01T00:00:00.250+00:00"),
        ("1420070400123", "2015-01-01T00:00:00.123+00:00"),
        ("-1", "1969-12-31T23:59:59+00:00"),
        ("99999999999", "5138-11-16T09:46:39+00:00"),
        ("100000000000", "1973-03-03T09:46:40+00:00"),
    ],
)
def test_a_time_in_each_form(text: str, expected: str) -> None:
    assert parse_time(text) == (dt.datetime.fromisoformat(expected) - EPOCH) // MILLISECOND


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "-",
        "yesterday",
        "2026-13-02T03:04:05Z",
        "2026-00-02T03:04:05Z",
        "2026-02-29T03:04:05Z",
        "2026-01-32T03:04:05Z",
        "2026-01-00T03:04:05Z",
        "2026-01-02T24:04:05Z",
        "2026-01-02T03:60:05Z",
        "2026-01-02T03:04:61Z",
        "2026-01-02T03:04:05+24:00",
        "2026-01-02T03:04:05.Z",
        "2026-01-02T03:04:05Q",
        "2026-01-02_03:04:05Z",
        "2026-01-02T03:04:05.678Z ",
        "0000-01-01T00:00:00Z",
        "0001-01-01T00:00:00+00:01",
        "9999-12-31T23:59:59-00:01",
        "31/Apr/2015:10:05:03 +0000",
        "17/Mai/2015:10:05:03 +0000",
        "17/May/2015:10:05:03 *0000",
        "Xyz Aug 27 13:08:45 +0000 2008",
        "２０２６-01-02",
        "inf",
        "nan",
        "1e300",
        "253402300800000",
        "99999999999999999999999",
        "12 34",
    ],
)
def test_what_is_no_time(text: str) -> None:
    assert parse_time(text) is None


def test_numbers_are_seconds_or_milliseconds() -> None:
    assert parse_times(pl.Series([0, -5, 1420070400, 1420070400123, None])).to_list() == [
        0,
        -5000,
        1420070400000,
        1420070400123,
        None,
    ]
    assert parse_times(pl.Series([1.5, 1420070400.0005, 1420070400123.4, float("nan"), float("inf")])).to_list() == [
        1500,
        1420070400000,
        1420070400123,
        None,
        None,
    ]
    assert parse_times(pl.Series([2**64 - 1], dtype=pl.UInt64)).to_list() == [None]
    assert parse_times(pl.Series([True])).to_list() == [None]
    assert parse_times(pl.Series([], dtype=pl.String)).to_list() == []


instants = st.datetimes(dt.datetime(2, 1, 1), dt.datetime(9998, 12, 31)).map(lambda time: time.replace(tzinfo=dt.UTC))
offsets = st.integers(-23 * 60 - 59, 23 * 60 + 59).map(lambda minutes: dt.timezone(dt.timedelta(minutes=minutes)))


@given(instants, offsets, st.sampled_from(["seconds", "milliseconds", "microseconds"]), st.sampled_from("T "))
def test_iso_times_equal_datetime(instant: dt.datetime, zone: dt.timezone, precision: str, separator: str) -> None:
    local = instant.astimezone(zone)
    text = local.isoformat(separator, precision)
    assert parse_time(text) == (dt.datetime.fromisoformat(text) - EPOCH) // MILLISECOND


@given(instants, st.sampled_from(["%d/%b/%Y:%H:%M:%S %z", "%a %b %d %H:%M:%S %z %Y"]))
def test_named_months_equal_datetime(instant: dt.datetime, form: str) -> None:
    text = instant.strftime(form.replace("%Y", f"{instant.year:04d}"))
    assert parse_time(text) == (instant.replace(microsecond=0) - EPOCH) // MILLISECOND


texts = st.one_of(
    instants.map(lambda instant: instant.isoformat()),
    instants.map(lambda instant: instant.strftime("%d/%b/%Y:%H:%M:%S %z")),
    st.integers(-(10**15), 10**15).map(str),
    st.floats(allow_nan=True).map(str),
    st.text(alphabet="0123456789-:TZ+. ", max_size=30),
    st.text(max_size=26),
    st.none(),
)


@pytest.mark.fuzz
@given(st.lists(texts, max_size=12))
def test_a_value_is_read_alike_in_any_company(values: list[str | None]) -> None:
    together = parse_times(pl.Series("time", values, dtype=pl.String))
    assert together.name == "time"
    assert together.dtype == pl.Int64
    assert together.to_list() == [None if value is None else parse_time(value) for value in values]


@pytest.mark.fuzz
@given(st.lists(st.one_of(st.integers(-(2**63), 2**63 - 1), st.none()), max_size=8))
def test_integers_are_read_alike_in_any_company(values: list[int | None]) -> None:
    alone = [parse_times(pl.Series([value], dtype=pl.Int64)).item() for value in values]
    assert parse_times(pl.Series(values, dtype=pl.Int64)).to_list() == alone
    assert alone == [None if value is None else parse_time(str(value)) for value in values]
