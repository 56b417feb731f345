"""Plans that the release before cannot run as they are meant are refused by it, others are taken."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from predecessor import unpack_sources

from query import Schema, analyze, parse

COUNT = "SELECT a, COUNT(*) AS n FROM web GROUP BY a WINDOWING 10 SECONDS"
READ = """
import json, sys
import query
try:
    query.Plan.from_wire(json.load(sys.stdin))
except query.PlanError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("clause", "refusal"),
    [
        ("", ""),
        ("GRACE 1 SECOND EMIT CHANGES", ""),
        ("WITHIN 500 MILLISECONDS", "not a plan: Object contains unknown field `within`"),
        ("EMIT CHANGES WITHIN 500 MILLISECONDS", "not a plan: Object contains unknown field"),
    ],
)
def test_a_plan_is_run_as_it_is_meant_or_not_at_all(tmp_path: Path, clause: str, refusal: str) -> None:
    unpack_sources(tmp_path, "query")
    plan = analyze(parse(f"{COUNT} {clause}"), {"web": Schema({}, open=True)}).to_wire()
    told = subprocess.run(
        [sys.executable, "-c", READ],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path)},
        input=json.dumps(plan),
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout.startswith(refusal)
    assert bool(told.stdout) == bool(refusal)
