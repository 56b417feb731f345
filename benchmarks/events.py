"""Makes the events that benchmarks read: seeded, so that all contenders read the same bytes in every run."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import polars as pl

PRODUCTS = 10_000
USERS = 100_000
SPAN_MS = 10 * 60 * 1000
STORES = ("video_games", "books", "music", "toys", "garden", "kitchen")
LOCATIONS = ("Ohio", "Georgia", "Oregon", "São Paulo", "Zürich", "Kraków", "Osaka", "Nairobi")
LANGUAGES = ("en", "de", "pt", "pl", "ja", "sw")

_BEGIN_MS = int(datetime(2026, 3, 2, 12, tzinfo=UTC).timestamp() * 1000)
_SNOWFLAKE_EPOCH_MS = 1_288_834_974_657


@dataclass(frozen=True, slots=True)
class Dataset:
    """Files of JSON lines, each like the log of one web server over the whole time."""

    paths: tuple[Path, ...]
    events: int
    bytes: int

    @property
    def event_bytes(self) -> float:
        """The mean length of an event, newline included."""
        return self.bytes / self.events


def write_shop_events(directory: Path, events: int, *, files: int = 8, seed: int = 4) -> Dataset:
    """Write `events` shop events over ten minutes, Zipf-distributed over 10,000 products, to `files` files.

    The fields are those of Figure 4 of the ELF paper and a few more that a shop would log: about 290 bytes.
    """
    directory.mkdir(parents=True, exist_ok=True)
    frame = _shop_events(events, np.random.default_rng(seed))
    paths = tuple(directory / f"events-{number}.json" for number in range(files))
    for number, path in enumerate(paths):
        frame.gather_every(files, number).write_ndjson(path)
    return Dataset(paths, events, sum(path.stat().st_size for path in paths))


def _shop_events(events: int, random: np.random.Generator) -> pl.DataFrame:
    time_ms = _BEGIN_MS + np.sort(random.integers(0, SPAN_MS, events))
    popularity = 1 / np.arange(1, PRODUCTS + 1)
    product = random.choice(PRODUCTS, events, p=popularity / popularity.sum())
    user = random.integers(0, USERS, events)
    names = pl.DataFrame(
        {
            "time": time_ms,
            "id": ((time_ms - _SNOWFLAKE_EPOCH_MS) << 22) + np.arange(events) % (1 << 22),
            "product": product,
            "clicks": random.integers(1, 6, events),
            "buys": (random.random(events) < 0.05).astype(np.int64),
            "user": user,
            "followers": user * 7_919 % 50_000,
        }
    )
    return names.select(
        created_at=pl.from_epoch("time", "ms").dt.strftime("%Y-%m-%dT%H:%M:%S%.3fZ"),
        id="id",
        product=pl.format("Angry Birds Season {}", "product"),
        clicks_count="clicks",
        buys_count="buys",
        store=_pick(STORES, "product"),
        user=pl.struct(
            id=343_284_040 + pl.col("user"),
            name=pl.format("@curry{}", "user"),
            location=_pick(LOCATIONS, "user"),
            lang=_pick(LANGUAGES, "user"),
            followers_count="followers",
        ),
        referer=pl.format("https://shop.example/{}", _pick(STORES, "product")),
    )


def _pick(values: tuple[str, ...], column: str) -> pl.Expr:
    """One of `values` for each number in `column`."""
    return pl.col(column).mod(len(values)).replace_strict(dict(enumerate(values)), return_dtype=pl.String)
