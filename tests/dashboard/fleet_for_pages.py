"""A fleet of agents with a log each, which somebody writes, and `elf dashboard` beside it, as a user starts it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from elf.demo.agents.agents import AgentFleet, AgentSpec, StreamFiles

AGENTS = 8
WRITE_EVERY_S = 0.02


@dataclass(frozen=True)
class Dashboard:
    """A running `elf dashboard` and the link that it has printed."""

    process: subprocess.Popen[str]
    link: str


@contextmanager
def writing_fleet(folder: Path, agents: int = AGENTS) -> Iterator[AgentFleet]:
    """Agents whose stream `web` has an event every few milliseconds, somewhere."""
    logs = [folder / f"web-{number}.json" for number in range(1, agents + 1)]
    for log in logs:
        log.touch()
    specs = [AgentSpec(f"agent-{number}", (StreamFiles("web", (str(log),)),)) for number, log in enumerate(logs, 1)]
    done = threading.Event()
    writer = threading.Thread(target=_write, args=(logs, done))
    with AgentFleet(folder / "agents", specs) as fleet:
        writer.start()
        try:
            yield fleet
        finally:
            done.set()
            writer.join()


def _write(logs: list[Path], done: threading.Event) -> None:
    number = 0
    while not done.wait(WRITE_EVERY_S):
        product = ("shoes", "hats", "<b>coats</b>\x1b[31m")[number % 7 % 3]
        event = {"time": time.time(), "product": product, "status": 200 + 300 * (number % 11 == 0)}
        with logs[number % len(logs)].open("a") as log:
            log.write(json.dumps(event) + "\n")
        number += 1


@contextmanager
def dashboard(*options: str | Path, **variables: str | Path) -> Iterator[Dashboard]:
    """`elf dashboard` on any free port, with these variables of its environment; ended with the block."""
    command = [sys.executable, "-m", "elf", "dashboard", "--listen", "127.0.0.1:0", *map(str, options)]
    environment = os.environ | {name: str(value) for name, value in variables.items()}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stdout is not None
            yield Dashboard(process, process.stdout.readline().strip())
        finally:
            process.terminate()
