"""The native scanners under AddressSanitizer and UBSan, over mutated lines; see fuzz_scan.c."""

from __future__ import annotations

import gzip
import itertools
import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from seeds import seeds

SOURCE = Path(__file__).with_name("fuzz_scan.c")
LINES = int(os.environ.get("ELF_FUZZ_LINES", "50000"))
"""Number of mutated lines of each seed; `make fuzz` takes many more."""
OPTIONS = ("-O2", "-g", "-std=gnu11", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
QUARANTINE = {"ASAN_OPTIONS": "quarantine_size_mb=16"}
"""Memory that is kept back after its release: much of it takes a fifth of the time."""
FOLDER = Path(os.environ.get("ELF_REAL_LOGS", Path(__file__).parents[3] / "shared" / "data"))
REAL_LOGS = {"json": ("wiki/edits.json.gz", "github/events.json.gz"),
             "combined": ("apache/access.log.gz", "odd/nasa-broken-lines.log.gz")}  # fmt: skip
REAL_LINES, REAL_LINE_BYTES_MAX = 100, 600
PLAIN = (
    {"a": 1, "b": {"c": "of more than twelve", "d": {"c": [1]}}, "time": "2024-01-01T00:00:00Z"},
    {"a": True, "x": {"y": [1, {"z": None}]}},
    {"a": "é", "b": {"c": 1.5, "d": {"c": True}}, "time": 1.7e9},
    {"time": 1700000000123, "a": "2024-05-17 10:05:03.123456789+05:30"},
    {"host": "web-1", "url": "/shop/item/1?q=" + "x" * 60, "a": -17, "b": {"c": None, "d": {}}},
    {"e": "\\u20ac \"quoted\""},
)  # fmt: skip
COMBINED = (
    '127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /a.gif?a=b HTTP/1.0" 200 2326 "http://www.example.com/" "M"',
    'web-1.example.com - - [29/Feb/2024:00:00:00 +0000] "POST /shop/\u00fc/1 HTTP/1.1" 304 - "-" "Mozilla/4.08 [en]"',
    '::1 - - [31/Dec/1999:23:59:59 +0530] "GET / HTTP/2.0" 499 0',
    '10.0.0.1 - - [01/Jan/2024:00:00:00 +0000] "\\x16\\x03" 400 150 "-" "-" "10.0.0.2" 0.003',
)


def _real_lines(names: Sequence[str]) -> bytes:
    """Some lines of real logs, where there are any."""
    found = []
    for name in names:
        if (FOLDER / name).exists():
            with gzip.open(FOLDER / name) as log:
                found += [line for line in itertools.islice(log, REAL_LINES) if len(line) < REAL_LINE_BYTES_MAX]
    return b"".join(found)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The scanners with sanitizers, built."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler here")
    program = tmp_path_factory.mktemp("fuzz") / "fuzz"
    built = subprocess.run([compiler, *OPTIONS, "-o", program, SOURCE], check=False, capture_output=True, text=True)
    if built.returncode:
        pytest.skip(f"no sanitizers here: {built.stderr.splitlines()[:1]}")
    return program


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", seeds(1, slow=[2]))
@pytest.mark.parametrize("form", ["json", "combined"])
def test_no_line_misleads_the_scanner(program: Path, tmp_path: Path, form: str, seed: int) -> None:
    lines = tmp_path / "lines"
    plain = COMBINED if form == "combined" else [json.dumps(line, ensure_ascii=False) for line in PLAIN]
    lines.write_bytes("".join(f"{line}\n" for line in plain).encode() + _real_lines(REAL_LOGS[form]))
    command = [program, form, str(seed), str(LINES), lines]
    ran = subprocess.run(command, env=os.environ | QUARANTINE, check=False, capture_output=True, text=True)
    assert ran.returncode == 0, f"seed {seed}: {ran.stderr}"
    assert int(ran.stdout.split()[0]) >= LINES
