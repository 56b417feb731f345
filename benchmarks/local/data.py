"""Makes the logs that are read beside the shop's events: with malformed lines, with many fields, of web servers."""

import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from benchmarks.events import Dataset, write_shop_events

FILES = 8
BAD_SHARE = 0.01
BAD, CLEAN = "bad", "clean"
"""Folders of one dataset: with malformed lines, and without them."""
PATHS = 10_000
STATUSES = ((200, 0.9), (206, 0.02), (304, 0.05), (500, 0.03))
AGENTS = (
    "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5",
)
_BEGIN = datetime(2026, 3, 2, 12, tzinfo=UTC)
_SPAN_S = 600


def write_shop(directory: Path, events: int) -> Dataset:
    """The shop's events as they are."""
    return write_shop_events(directory, events, files=FILES)


def write_with_bad_lines(directory: Path, events: int) -> Dataset:
    """The shop's events with one line in a hundred cut off somewhere, in one folder, and without those lines in
    another. The dataset is the first."""
    whole = write_shop_events(directory / BAD, events, files=FILES)
    (directory / CLEAN).mkdir()
    chance = random.Random(5)
    for path in whole.paths:
        kept, lines = [], []
        for line in path.read_bytes().splitlines(keepends=True):
            if chance.random() < BAD_SHARE:
                lines.append(line[: chance.randrange(1, len(line) - 2)] + b"\n")
            else:
                lines.append(line)
                kept.append(line)
        path.write_bytes(b"".join(lines))
        (directory / CLEAN / path.name).write_bytes(b"".join(kept))
    return Dataset(whole.paths, events, sum(path.stat().st_size for path in whole.paths))


def write_nested(directory: Path, events: int) -> Dataset:
    """The shop's events with twenty fields: time, product and clicks are among them, in objects of objects."""
    whole = write_shop_events(directory, events, files=FILES)
    for path in whole.paths:
        lines = path.read_bytes().splitlines()
        path.write_bytes(
            b"".join(json.dumps(_nested(json.loads(line)), separators=(",", ":")).encode() + b"\n" for line in lines)
        )
    return Dataset(whole.paths, events, sum(path.stat().st_size for path in whole.paths))


def _nested(event: dict[str, object]) -> dict[str, object]:
    number = int(str(event["id"])) & 0xFFFF
    return {
        "level": "info",
        "meta": {"time": event["created_at"], "host": f"web-{number % 40}", "pid": number, "thread": "worker"},
        "request": {
            "id": f"{number:08x}", "method": "POST", "path": "/api/v2/clicks", "status": 200, "seconds": number / 1e5,
            "ip": f"10.{number % 256}.{number // 256}.7", "bytes": number * 3,
        },
        "order": {"item": {"product": event["product"], "clicks": event["clicks_count"], "buys": event["buys_count"]}},
        "store": event["store"],
        "referer": event["referer"],
        "user": {"id": number * 7, "name": f"@curry{number}", "lang": "en"},
    }  # fmt: skip


def write_access_logs(directory: Path, events: int) -> Dataset:
    """Requests in the combined log format: Zipf-distributed over paths, a third of them with a query string."""
    directory.mkdir(parents=True, exist_ok=True)
    chance = np.random.default_rng(9)
    popularity = 1 / np.arange(1, PATHS + 1)
    pages = chance.choice(PATHS, events, p=popularity / popularity.sum()).tolist()
    seconds = np.sort(chance.integers(0, _SPAN_S, events)).tolist()
    statuses = chance.choice([code for code, _ in STATUSES], events, p=[share for _, share in STATUSES]).tolist()
    sizes, others = chance.integers(100, 90_000, events).tolist(), chance.integers(0, 1 << 24, events).tolist()
    stamps = [(_BEGIN + timedelta(seconds=second)).strftime("%d/%b/%Y:%H:%M:%S +0000") for second in range(_SPAN_S)]
    paths = tuple(directory / f"access-{number}.log" for number in range(FILES))
    for number, path in enumerate(paths):
        path.write_text(
            "".join(
                f"10.{other >> 16}.{other >> 8 & 255}.{other & 255} - - [{stamps[second]}] "
                f'"GET /shop/item/{page}{f"?from={other}" if other % 3 == 0 else ""} HTTP/1.1" {status} {size} '
                f'"https://shop.example/" "{AGENTS[other % len(AGENTS)]}"\n'
                for page, second, status, size, other in zip(
                    pages[number::FILES], seconds[number::FILES], statuses[number::FILES], sizes[number::FILES],
                    others[number::FILES], strict=True,
                )
            )
        )  # fmt: skip
    return Dataset(paths, events, sum(path.stat().st_size for path in paths))
