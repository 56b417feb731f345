"""GoAccess: a JSON report of nothing but requests, one row for each path, all files at once."""

import json
import subprocess
from typing import Any

from benchmarks.contender import Answer, measure

PANELS = (
    "VISITORS", "REQUESTS_STATIC", "NOT_FOUND", "HOSTS", "OS", "BROWSERS", "VISIT_TIMES", "VIRTUAL_HOSTS", "REFERRERS",
    "REFERRING_SITES", "KEYPHRASES", "STATUS_CODES", "REMOTE_USER", "CACHE_STATUS", "GEO_LOCATION", "MIME_TYPE",
    "TLS_TYPE",
)  # fmt: skip
"""Everything that it would tell besides, and need not."""
ROWS_MAX = 100_000
COMMAND = (
    "goaccess", "--log-format=COMBINED", "--no-global-config", "--no-query-string", "--http-method=no",
    "--http-protocol=no", "--no-progress", f"--max-items={ROWS_MAX}", "--output-format=json",
    *(f"--ignore-panel={panel}" for panel in PANELS),
)  # fmt: skip


def report(paths: list[str]) -> dict[str, Any]:
    done = subprocess.run([*COMMAND, *paths], check=True, capture_output=True, stdin=subprocess.DEVNULL)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def answer(found: dict[str, Any]) -> Answer:
    rows = found["requests"]["data"]
    return Answer.of([int(row[what]["count"]) for row in rows for what in ("hits", "bytes")])


if __name__ == "__main__":
    measure(report, answer)
