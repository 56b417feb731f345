"""Eight agent processes say what `elf local` says, byte for byte, over the same files of real logs."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import elf
from agent.control.messages import Ended
from elf.client import Result
from elf.demo.agents.agents import AgentFleet, AgentSpec, StreamFiles
from elf.local import LocalOptions, LocalRun, LocalSource

pytestmark = pytest.mark.live
AGENTS = 8
TIMEOUT_S = 600.0
NAMES = [f"agent-{number}" for number in range(1, AGENTS + 1)]
APACHE = [
    "SELECT path, COUNT(*) AS hits, SUM(body_bytes_sent) AS bytes FROM apache GROUP BY path WINDOWING 1 DAY",
    "SELECT status, AVG(body_bytes_sent) AS size, COUNT(*) FROM apache GROUP BY status",
    "SELECT remote_addr, path, status FROM apache WHERE status >= 500 ORDER BY path LIMIT 5 WINDOWING 1 HOUR",
]
RETAIL_PER_WEEK = (
    "SELECT StockCode, SUM(Quantity * UnitPrice) AS revenue, AVG(Quantity) AS quantity FROM retail "
    "GROUP BY StockCode WINDOWING 7 DAYS"
)
RETAIL = [
    RETAIL_PER_WEEK,
    "SELECT InvoiceNo, CustomerID, SUM(Quantity) AS items, COUNT(Description) AS lines FROM retail "
    "GROUP BY InvoiceNo, CustomerID TREES 4",
    "SELECT Country, MAX(UnitPrice) AS dearest FROM retail GROUP BY Country ORDER BY dearest DESC LIMIT 7",
]


@dataclass(frozen=True)
class Stage:
    """A fleet, and the files of each of its streams, one an agent."""

    fleet: AgentFleet
    files: dict[str, list[Path]]


def deal(source: Path, folder: Path, name: str, *, header: bool) -> list[Path]:
    """The lines of one log, dealt in turn to as many files as there are agents."""
    with gzip.open(source) as file:
        lines = file.read().splitlines(keepends=True)
    head = lines[:1] if header else []
    paths = [folder / f"{agent}-{name}.log" for agent in NAMES]
    for number, path in enumerate(paths):
        path.write_bytes(b"".join(head + lines[len(head) + number :: AGENTS]))
    return paths


@pytest.fixture(scope="module")
def stage(real_logs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("rows")
    files = {
        "apache": deal(real_logs / "apache" / "access.log.gz", folder, "apache", header=False),
        "retail": deal(real_logs / "retail" / "transactions.csv.gz", folder, "retail", header=True),
    }
    specs = [
        AgentSpec(
            name,
            (
                StreamFiles("apache", (str(apache),), read_from="beginning"),
                StreamFiles("retail", (str(retail),), read_from="beginning", time_field="InvoiceDate"),
            ),
        )
        for name, apache, retail in zip(NAMES, files["apache"], files["retail"], strict=True)
    ]
    with AgentFleet(folder / "agents", specs) as fleet:
        yield Stage(fleet, files)
    assert fleet.faults() == []


def rows_of(line: dict[str, Any]) -> tuple[str | None, str | None, list[dict[str, Any]], int]:
    return line["window_start"], line["window_end"], line["rows"], line["events"]


def locally(stage: Stage, text: str, stream: str) -> list[dict[str, Any]]:
    """What `elf local` says, one agent for a file."""
    options = LocalOptions(arrival_ms=0, agents=AGENTS, time_field="InvoiceDate" if stream == "retail" else None)
    run = LocalRun(text, [LocalSource(stream, tuple(map(str, stage.files[stream])))], options)
    return [json.loads(result.to_json()) for result in run.results()]


def by_the_fleet(stage: Stage, text: str, *, windows: int | None = None) -> Sequence[Result]:
    """All windows of a bounded query, or the first `windows` of a live one, in time."""
    deadline = time.monotonic() + TIMEOUT_S
    results: list[Result] = []
    with (
        elf.connect_sync(stage.fleet.socket("agent-3")) as client,
        client.query(text, once=windows is None) as job,
    ):
        while windows is None or len(results) < windows:
            left_s = deadline - time.monotonic()
            assert left_s > 0, f"{len(results)} windows in {TIMEOUT_S:g} s; {job.acknowledged}"
            match job.wait(left_s):
                case Result() as result:
                    results.append(result)
                case Ended(reason=reason):
                    assert reason == "finished"
                    break
    return results


def cases(stream: str, texts: Sequence[str], *, default: bool = True) -> list[Any]:
    """The first by default."""
    slow = [pytest.mark.slow]
    return [pytest.param(stream, text, marks=[] if default and n == 0 else slow) for n, text in enumerate(texts)]


@pytest.mark.parametrize(("stream", "text"), cases("apache", APACHE) + cases("retail", RETAIL, default=False))
def test_eight_processes_give_the_rows_of_elf_local(stage: Stage, stream: str, text: str) -> None:
    expected = locally(stage, text, stream)
    found = by_the_fleet(stage, text)
    assert [rows_of(json.loads(result.to_json())) for result in found] == [rows_of(line) for line in expected]
    assert {(result.contributors, result.expected, len(result.missing)) for result in found} == {(8, 8, 0)}
    assert sum(result.malformed for result in found) == sum(line["malformed"] for line in expected)
    assert sum(result.coerced for result in found) == sum(line["coerced"] for line in expected)


def test_a_live_query_that_begins_with_the_past_gives_the_same_windows(stage: Stage) -> None:
    """Each log is in order of time, so that nothing is late, and its end lies far enough back for all to close."""
    expected = locally(stage, RETAIL_PER_WEEK, "retail")
    found = by_the_fleet(stage, RETAIL_PER_WEEK, windows=len(expected))
    counted = [(one.window_start, one.contributors, one.expected, one.missing, one.leaped_over) for one in found]
    assert [one for one in counted if one[1:] != (AGENTS, AGENTS, [], [])] == []
    assert [rows_of(json.loads(result.to_json())) for result in found] == [rows_of(line) for line in expected]
    assert sum(result.late for result in found) == 0
