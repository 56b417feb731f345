"""Times as people write them in a query and as results show them; inside they are epoch milliseconds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import polars as pl

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# The years 0001 to 9999, outside which RFC 3339 has no way to write a time.
SHOWN_MIN = -62_135_596_800_000
SHOWN_MAX = 253_402_300_799_999


def parse_timestamp(text: str) -> int | None:
    """Epoch milliseconds of an ISO 8601 time, in UTC unless it names a zone; None for any other text.

    >>> parse_timestamp("1970-01-01 00:01"), parse_timestamp("yesterday")
    (60000, None)
    """
    try:
        time = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    return (time - _EPOCH) // timedelta(milliseconds=1)


def format_timestamp(time_ms: int) -> str | None:
    """RFC 3339 in UTC, with a fraction only if there is one; None outside the years 1 to 9999.

    >>> format_timestamp(1500)
    '1970-01-01T00:00:01.500Z'
    """
    if not SHOWN_MIN <= time_ms <= SHOWN_MAX:
        return None
    moment = _EPOCH + timedelta(milliseconds=time_ms)
    return moment.isoformat(timespec="milliseconds" if time_ms % 1000 else "seconds").replace("+00:00", "Z")


def format_timestamps(times_ms: pl.Series) -> list[str | None]:
    """`format_timestamp` of every value; NULL stays None."""
    # Polars panics on times no calendar holds.
    shown = pl.when(pl.col("time").is_between(SHOWN_MIN, SHOWN_MAX)).then(pl.col("time"))
    text = shown.cast(pl.Datetime("ms", "UTC")).dt.to_string("%Y-%m-%dT%H:%M:%S%.fZ")
    return times_ms.to_frame("time").select(text)["time"].to_list()


_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"), (1, "ms"))


def duration(milliseconds: int) -> str:
    """A duration in the largest unit that leaves no fraction: 90 s, 5 min."""
    if not milliseconds:
        return "0 ms"
    size, unit = next((size, unit) for size, unit in _UNITS if milliseconds % size == 0)
    return f"{milliseconds // size} {unit}"
