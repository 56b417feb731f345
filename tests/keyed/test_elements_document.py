"""docs/elements.md, docs/grouping.md: every program on them runs over files, and prints the lines shown."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from elf_process import elf

DOCUMENTS = [(Path(__file__).parents[2] / "docs" / f"{name}.md").read_text() for name in ("elements", "grouping")]
BLOCKS = [
    one for text in DOCUMENTS for one in re.findall(r"^```(python|text)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
]
PROGRAMS = [text for kind, text in BLOCKS if kind == "python"]
SHOWN = [text for kind, text in BLOCKS if kind == "text"]
BEGIN_MS = 1_790_000_000_000
Logs = dict[str, list[dict[str, Any]]]


def pages(*visits: tuple[str, float]) -> list[dict[str, Any]]:
    return [{"time": BEGIN_MS + round(1000 * second), "visitor": who, "path": "/"} for who, second in visits]


def served(second: float, serve: str, ad: str) -> dict[str, Any]:
    return {"time": BEGIN_MS + round(1000 * second), "serve": serve, "ad": ad}


LOGS: dict[str, Logs] = {
    "Words": {"quotes": [{"text": "To be or not to be"}, {"text": "To err is human"}]},
    "Visits": {"visits": pages(("ann", 65), ("ben", 7), ("ann", 0), ("ann", 30))},
    "Stayed": {"visits": [*pages(("ann", 0), ("ben", 7), ("ann", 30)), {**pages(("ben", 40))[0], "path": "/buy"}]},
    "Rates": {
        "serves": [served(0, "a", "skis"), served(1, "b", "skis"), served(2, "c", "skates")],
        "clicks": [served(60, "a", "skis"), served(1900, "b", "skis"), served(5, "c", "skis")],
    },
    "Sites": {
        "visits": [
            {"time": BEGIN_MS + n, "site": site, "bytes": size}
            for n, (site, size) in enumerate([("/a", 300), ("/b", 80), ("/a", 500)])
        ]
    },
}
"""The logs of each program, by the name of its job."""
OPTIONS = {"Stayed": ("--stage", "pages")}
"""How a program is run, as the page says before what it prints."""


def printed(folder: Path, program: str, logs: Logs, *options: str) -> str:
    """What `elf local --job` prints of a program over logs."""
    path = folder / "job.py"
    path.write_text(program)
    command = ["local", "--job", str(path), "--output", "csv", *options]
    for stream, events in logs.items():
        log = folder / f"{stream}.json"
        log.write_text("".join(json.dumps(event) + "\n" for event in events))
        command += ["--source", f"{stream}={log}"]
    run = elf(*command)
    assert not run.code, run.err
    return run.out


def name_of(program: str) -> str:
    found = re.search(r"^class (\w+)\(elf\.Job\)", program, re.MULTILINE)
    assert found is not None
    return found[1]


def test_each_program_has_logs_and_an_outcome() -> None:
    assert {name_of(program) for program in PROGRAMS} == LOGS.keys()
    assert [kind for kind, _ in BLOCKS] == ["python", "text"] * len(PROGRAMS)


@pytest.mark.parametrize("agents", [1, 3])
@pytest.mark.parametrize("place", range(len(PROGRAMS)), ids=[name_of(program) for program in PROGRAMS])
def test_it_prints_what_the_page_says(tmp_path: Path, place: int, agents: int) -> None:
    program = PROGRAMS[place]
    name = name_of(program)
    assert printed(tmp_path, program, LOGS[name], "--agents", str(agents), *OPTIONS.get(name, ())) == SHOWN[place]
