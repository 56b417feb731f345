"""What archiving costs an agent on a live stream, and what an archive takes beside compressed logs.

The archiver is a process of its own, which reads the same log at the same time, on the same two cores.
"""

import gzip
import sys
import tempfile
import time
from pathlib import Path

import elf
from agent.archive.format.rows import ArchiveRows, FileOrigin, RowReader
from agent.archive.format.segments import encode_segment
from agent.archive.writer.archiver import SEGMENT_BYTES
from agent.parsing import sniff
from agent.sources import SourceFile
from benchmarks.environment import use_two_cores
from benchmarks.events import Dataset, write_shop_events
from benchmarks.race import BenchmarkError
from benchmarks.report import Comparison, smaller, throughput
from elf.client import ClientError, SyncClient
from elf.demo import DemoError
from elf.demo.agents.agents import AgentFleet, AgentSpec, StreamFiles

EVENTS, QUICK_EVENTS = 1_500_000, 400_000
ROUNDS, QUICK_ROUNDS = 7, 3
SHARE_TARGET = 0.85
"""Of the events that an agent without an archive reads in a second."""
AGENT, STREAM = "agent-1", "web"
QUERY = f"SELECT product, COUNT(*) AS n, SUM(clicks_count) AS clicks FROM {STREAM} GROUP BY product WINDOWING 1 SECOND"
_FIRST_EVENTS = 100
"""What the log holds from the start, so that there is something to tell its format from."""
_GZIP_LEVEL = 6
_SETTLE_S, _POLL_S, _TIMEOUT_S = 3.0, 0.02, 120.0


def run(quick: bool) -> list[Comparison]:
    """Both figures. Raises BenchmarkError."""
    use_two_cores()
    with tempfile.TemporaryDirectory(prefix="elf-bench-") as folder:
        events = write_shop_events(Path(folder) / "events", QUICK_EVENTS if quick else EVENTS, files=1)
        return [_reading(events, Path(folder), QUICK_ROUNDS if quick else ROUNDS), _size(events)]


def _reading(events: Dataset, folder: Path, rounds: int) -> Comparison:
    """With and without, in turn; the round with the median ratio counts, since both had the same machine in it."""
    pairs = []
    try:
        for number in range(rounds):
            print(f"round {number + 1} of {rounds}: archiving", file=sys.stderr, flush=True)
            without = _events_per_s(events, folder / f"without-{number}", archives=False)
            pairs.append((_events_per_s(events, folder / f"with-{number}", archives=True), without))
    except (DemoError, ClientError) as error:
        raise BenchmarkError(str(error)) from error
    value, rival = sorted(pairs, key=lambda pair: pair[0] / pair[1])[len(pairs) // 2]
    case = f"an agent reads {events.events:,} live events for a query and archives them"
    return throughput("batch", case, value, "events/s", "without archive", rival, SHARE_TARGET)


def _events_per_s(events: Dataset, folder: Path, *, archives: bool) -> float:
    """How fast an agent that runs a query reads what is suddenly in its log."""
    log = folder / "web.json"
    first = write_shop_events(folder / "first", _FIRST_EVENTS, files=1)
    log.write_bytes(first.paths[0].read_bytes())
    stream = StreamFiles(STREAM, (str(log),))
    with (
        AgentFleet(folder / "agents", [AgentSpec(AGENT, (stream,))], archives=archives) as fleet,
        elf.connect_sync(fleet.socket(AGENT)) as client,
        client.query(QUERY),
    ):
        time.sleep(_SETTLE_S)
        content = events.paths[0].read_bytes()
        began = time.monotonic()
        with log.open("ab") as file:
            file.write(content)
        _until_read(client, events.events, began + _TIMEOUT_S)
        return events.events / (time.monotonic() - began)


def _until_read(client: SyncClient, events: int, deadline: float) -> None:
    while (read := _events_read(client)) < events:
        if time.monotonic() > deadline:
            raise BenchmarkError(f"an agent read {read:,} of {events:,} events within {_TIMEOUT_S:g} s")
        time.sleep(_POLL_S)


def _events_read(client: SyncClient) -> int:
    return next(stream.events for stream in client.status().streams if stream.name == STREAM)


def _size(events: Dataset) -> Comparison:
    """Segments as an archiver writes them: lines as they are, and their fields as columns."""
    (path,) = events.paths
    source = SourceFile(str(path))
    reader = RowReader(FileOrigin(STREAM, AGENT, str(path), 1, sniff(source.head(), str(path))))
    size, held, lots = 0, 0, list[ArchiveRows]()
    for block in source.blocks():
        rows = reader.read(block, 0)
        if rows is not None:
            lots.append(rows)
            held += rows.bytes
        if held >= SEGMENT_BYTES:
            size += len(encode_segment(lots, 0)[0])
            held, lots = 0, []
    if lots:
        size += len(encode_segment(lots, 0)[0])
    compressed = len(gzip.compress(path.read_bytes(), _GZIP_LEVEL))
    case = f"archive of {events.bytes / 1e6:,.0f} MB of logs, lines and columns"
    return smaller("batch", case, size / 1e6, "MB", f"gzip -{_GZIP_LEVEL} of the lines", compressed / 1e6)
