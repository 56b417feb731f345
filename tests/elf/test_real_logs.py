"""`elf local` on real logs: the same bytes with 1, 8 and 64 agents, and the same rows as DuckDB."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pytest

from elf.local import LocalOptions, LocalRun, LocalSource

DAY, HOUR, WEEK = 86_400_000, 3_600_000, 7 * 86_400_000

LINES = (
    "SELECT {columns} FROM (SELECT regexp_extract(line, "
    r"""'^(\S+) \S+ (.*?) \[([^\]]+)\] "(.*?)" (\d{{3}}) (\d+|-)', """
    "['host','user','at','request','status','bytes']) AS p FROM read_csv({files}, header=false, "
    "columns={{'line':'VARCHAR'}}, delim='\x01', quote='', escape='', auto_detect=false))"
)
APACHE = LINES.replace(
    "{columns}",
    "p.host AS remote_addr, split_part(split_part(p.request, ' ', 2), '?', 1) AS path, "
    "p.status::BIGINT AS status, try_cast(p.bytes AS BIGINT) AS body_bytes_sent, "
    "epoch_ms(strptime(p.at, '%d/%b/%Y:%H:%M:%S %z')) AS ms",
)
NASA = (
    "SELECT *, time::BIGINT * 1000 AS ms FROM read_csv({files}, delim='\t', quote='', header=true, "
    "all_varchar=true, null_padding=true, ignore_errors=true, union_by_name=true, strict_mode=false)"
)
RETAIL = (
    "SELECT *, epoch_ms(InvoiceDate::TIMESTAMP) AS ms FROM read_csv({files}, header=true, all_varchar=true, quote='\"')"
)
GITHUB = "SELECT type, actor.login AS actor, epoch_ms(created_at::TIMESTAMP) AS ms FROM read_json({files})"
WIKI = 'SELECT *, epoch_ms("time"::TIMESTAMP) AS ms FROM read_json({files})'


@dataclass(frozen=True)
class Case:
    """An ELF QL query and what DuckDB says to the same over the same events."""

    name: str
    files: str
    elf: str
    events: str
    keys: str
    measures: str
    where: str = "true"
    window_ms: int | None = None
    time_field: str | None = None
    groups_at_least: int = 1


CASES = [
    Case("hits and bytes by path per day", "apache/access.log.gz",
         "SELECT path, COUNT(*) AS hits, SUM(body_bytes_sent) AS bytes FROM logs GROUP BY path WINDOWING 1 DAY",
         APACHE, "path", "count(*) AS hits, sum(body_bytes_sent) AS bytes", window_ms=DAY),
    Case("hits and bytes by path per day, TSV", "nasa/*.tsv.gz",
         "SELECT url, COUNT(*) AS hits, SUM(bytes) AS bytes FROM logs GROUP BY url WINDOWING 1 DAY",
         NASA, "url", "count(*) AS hits, sum(bytes::BIGINT) AS bytes", window_ms=DAY),
    Case("server errors by client per hour", "apache/access.log.gz",
         "SELECT remote_addr, COUNT(*) AS n FROM logs WHERE status >= 500 GROUP BY remote_addr WINDOWING 1 HOUR",
         APACHE, "remote_addr", "count(*) AS n", where="status >= 500", window_ms=HOUR),
    Case("errors by client per hour, TSV", "nasa/*.tsv.gz",
         "SELECT host, COUNT(*) AS n FROM logs WHERE response >= 400 GROUP BY host WINDOWING 1 HOUR",
         NASA, "host", "count(*) AS n", where="response::BIGINT >= 400", window_ms=HOUR),
    Case("average size by status", "apache/access.log.gz",
         "SELECT status, AVG(body_bytes_sent) AS size FROM logs GROUP BY status",
         APACHE, "status", "avg(body_bytes_sent) AS size"),
    Case("average size by status, TSV", "nasa/*.tsv.gz",
         "SELECT response, AVG(bytes) AS size FROM logs GROUP BY response",
         NASA, "response", "avg(bytes::BIGINT) AS size"),
    Case("revenue by product per week", "retail/transactions.csv.gz",
         "SELECT StockCode, SUM(Quantity * UnitPrice) AS revenue, AVG(Quantity) AS quantity FROM logs "
         "GROUP BY StockCode WINDOWING 7 DAYS",
         RETAIL, "StockCode",
         "list(Quantity::BIGINT * UnitPrice::DOUBLE) AS revenue, "
         "avg(Quantity::BIGINT) AS quantity",
         window_ms=WEEK, time_field="InvoiceDate"),
    Case("baskets", "retail/transactions.csv.gz",
         "SELECT InvoiceNo, CustomerID, SUM(Quantity) AS items, COUNT(Description) AS lines FROM logs "
         "GROUP BY InvoiceNo, CustomerID",
         RETAIL, "InvoiceNo, CustomerID", "sum(Quantity::BIGINT) AS items, count(Description) AS lines",
         time_field="InvoiceDate", groups_at_least=10_000),
    Case("events by type", "github/events.json.gz",
         "SELECT type, COUNT(*) AS n FROM logs GROUP BY type WINDOWING 10 MINUTES",
         GITHUB, "type", "count(*) AS n", window_ms=600_000),
    Case("events by nested actor", "github/events.json.gz",
         "SELECT actor.login AS actor, COUNT(*) AS n, MAX(type) AS last FROM logs "
         "GROUP BY actor.login WINDOWING 10 MINUTES",
         GITHUB, "actor", "count(*) AS n, max(type) AS last", window_ms=600_000),
    Case("edits by page", "wiki/edits.json.gz",
         "SELECT page, COUNT(*) AS n, SUM(delta) AS grown, MIN(added) AS least, MAX(added) AS most FROM logs "
         "WHERE isRobot = FALSE AND namespace LIKE '%a%' GROUP BY page",
         WIKI, "page", "count(*) AS n, sum(delta) AS grown, min(added) AS least, max(added) AS most",
         where="NOT isRobot AND namespace LIKE '%a%'", groups_at_least=10_000),
    Case("edits by channel per hour", "wiki/edits.json.gz",
         "SELECT channel, countryName, AVG(delta) AS mean FROM logs GROUP BY channel, countryName WINDOWING 1 HOUR",
         WIKI, "channel, countryName", "avg(delta) AS mean", window_ms=HOUR),
]  # fmt: skip


def run_elf(case: Case, files: list[str], agents: int) -> list[str]:
    """One line a window: its start and its rows, as printed."""
    options = LocalOptions(arrival_ms=0, agents=agents, time_field=case.time_field)
    run = LocalRun(case.elf, [LocalSource("logs", tuple(files))], options)
    lines = []
    for result in run.results():
        assert (result.contributors, result.expected, result.missing) == (agents, agents, [])
        line = json.loads(result.to_json())
        lines.append(json.dumps([line["window_start"], line["rows"]]))
    return lines


def run_duckdb(case: Case, files: list[str]) -> list[tuple[Any, ...]]:
    window = f"ms // {case.window_ms} * {case.window_ms}" if case.window_ms else "0"
    order = ", ".join(f"{key} ASC NULLS LAST" for key in case.keys.split(", "))
    events = case.events.replace("{files}", repr(files)).replace("{{", "{").replace("}}", "}")
    sql = (
        f"SELECT {window} AS w, {case.keys}, {case.measures} FROM ({events}) WHERE {case.where} "
        f"GROUP BY w, {case.keys} ORDER BY w, {order}"
    )
    return [tuple(map(canonical, row[1:])) for row in duckdb.sql(sql).fetchall()]


def canonical(value: Any) -> Any:
    """15 significant digits, and integral numbers as integers: how ELF prints numbers.

    DuckDB's own sums of doubles depend on the order of addition; where a case has it return the addends instead, they
    are summed here, correctly rounded.
    """
    if isinstance(value, list):
        value = math.fsum(value)
    if isinstance(value, float):
        value = float(f"{value:.15g}")
        return int(value) if value.is_integer() else value
    return value


LARGE = {
    "revenue by product per week",
    "average size by status, TSV",
    "errors by client per hour, TSV",
    "baskets",
    "edits by page",
    "events by nested actor",
}
"""Left to `make test-all`."""


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, id=case.name, marks=[pytest.mark.slow] if case.name in LARGE else []) for case in CASES],
)
def test_agents_agree_with_each_other_and_with_duckdb(case: Case, real_logs: Path) -> None:
    files = sorted(str(path) for path in real_logs.glob(case.files))
    assert files
    alone = run_elf(case, files, agents=1)
    assert run_elf(case, files, agents=8) == alone
    assert run_elf(case, files, agents=64) == alone
    rows = [tuple(row.values()) for line in alone for row in json.loads(line)[1]]
    assert rows == run_duckdb(case, files)
    assert len(rows) >= case.groups_at_least
