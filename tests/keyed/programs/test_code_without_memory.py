"""A program that uses all the memory that it may ends, and does not go round for ever in looking for who minds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOM_BYTES = 96 << 20
PATIENCE_S = 60.0
SCRIPT = f"""
import resource
from pathlib import Path
from beside import Beside, one
beside = Beside(one({{body!r}}))
pages = int(Path("/proc/self/statm").read_text().split()[0])
limit = pages * resource.getpagesize() + {ROOM_BYTES}
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
beside.process("One", "Word", [(at, "to", 10**7) for at in range(1000)], "word")
"""
QUIET = {"_RJEM_MALLOC_CONF": "background_thread:false"}
"""Has the allocator of Polars begin no thread, which it would complain of behind all else."""
STORMS = {
    "events": "def process_event(self, event):\n    for n in range(event.n): self.emit(Sum('', n))",
    "state": "all: list = []\ndef process_event(self, event):\n    for n in range(event.n): self.all.append([n])",
    "output": "every_s = 1\ndef process_event(self, event): pass\ndef output(self):\n"
    "    while True: self.emit(Sum('', 1))",
}


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the system does not tell how much memory is used")
@pytest.mark.parametrize("storm", STORMS)
def test_a_storm_of_events_or_of_state_that_fills_the_memory_ends_the_program(storm: str) -> None:
    script = SCRIPT.format(body=STORMS[storm]) + "beside.advance('One', 10_000)\n"
    ended = subprocess.run(
        [sys.executable, "-c", script],
        cwd=Path(__file__).parent, capture_output=True, timeout=PATIENCE_S, check=False, text=True,
        env=os.environ | QUIET,
    )  # fmt: skip
    assert ended.returncode == 1
    assert ended.stderr.endswith("MemoryError\n")
