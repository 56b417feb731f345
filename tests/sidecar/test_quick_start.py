"""The README's quick start, word for word, as typed on a Debian with nginx by one who has nothing but that text."""

from __future__ import annotations

import re
import shutil
import tempfile
import time
from pathlib import Path

import pytest
from machines import wait_until
from web_servers import WebServers

pytestmark = pytest.mark.sidecar
README = Path(__file__).parents[2] / "README.md"
HEADING = "\n## Quick start"
TIME_S = 300.0
ROW = re.compile(r"\b200\b\D+(\d+)")


def commands() -> list[str]:
    """The lines of the first block below the heading."""
    below = README.read_text().split(HEADING, 1)[1]
    block = re.search(r"(?:^    .+\n)+", below, re.MULTILINE)
    assert block is not None
    return [line.strip() for line in block[0].splitlines()]


def test_the_first_result_of_real_traffic_comes_in_less_than_five_minutes(fresh: WebServers, package: Path) -> None:
    machine = fresh.first
    shutil.copy(package, machine.path(f"/root/{package.name}"))
    *steps, query = commands()
    with fresh.traffic(), tempfile.NamedTemporaryFile("r") as output:
        began = time.monotonic()
        for step in steps:
            print(machine.run("sh", "-c", f"cd && {step}").stderr)
        with Path(output.name).open("w") as out, machine.running("sh", "-c", query, stdout=out, stderr=out):
            wait_until(lambda: ROW.search(Path(output.name).read_text()), "a row of the result", TIME_S)
        took = time.monotonic() - began
        print(f"{output.read()}\nfrom the package to the first result: {took:.0f} s, {len(steps) + 1} commands")
    assert took < TIME_S
