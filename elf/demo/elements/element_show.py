"""Runs the demo of keyed elements from start to end: `elf demo top-words`, `elf demo ctr`."""

import random
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console

from elf.client import SyncClient
from elf.demo.agents.agents import AgentFleet, AgentSpec, StreamFiles
from elf.demo.elements.element_board import ElementBoard, HostRow
from elf.demo.elements.element_live import ElementPerformance
from elf.demo.elements.element_plays import HOSTS, ElementPlay
from elf.demo.elements.log_truth import LogComparison
from elf.demo.elements.log_writing import LogTime, LogWriter
from elf.demo.interruption import run_orderly, undisturbed_end
from elf.demo.story.live import one_error
from elf.demo.story.screen import screen_for
from elf.demo.story.show import elf_command, kept, say, temporary_directory
from elf.errors import ElfError, UsageError
from elf.signing.creator import load_creator
from elf.signing.shipped import shipped
from elf.signing.submission import contents_of, read_job, signed

SECONDS_MIN = 15.0
HOUR_MS = 3_600_000
_ANSWER_TIMEOUT_S = 20.0


def show_elements(console: Console, play: ElementPlay, seconds: float, keep: Path | None) -> None:
    """Runs a job on a fleet and compares its results with the logs. Raises DemoError and ElfError in one line, also for
    differences that the results do not name; no process is left then.
    """
    if seconds < SECONDS_MIN:
        raise UsageError(f"--seconds {seconds:g} is too short for this demo: {SECONDS_MIN:g} at least")
    with ExitStack() as stage:
        folder = kept(keep) if keep is not None else None
        directory = stage.enter_context(temporary_directory())
        logs = _logs(folder or directory, play)
        lead_ms = play.lead_hours * HOUR_MS
        writer = LogWriter(logs, play.rate, play.write(random.randrange(1 << 32)), _log_time(play, seconds), lead_ms)
        fleet = stage.enter_context(AgentFleet(directory / "agents", _agents(play, logs)))
        stage.enter_context(undisturbed_end())
        say(console, f"{play.app}: {play.about}.")
        if play.past_hours:
            say(
                console, f"The times of the lines are of the past: an hour passes in {seconds / play.past_hours:.1f} s."
            )
        say(console, f"{len(logs)} servers log into {folder or directory}, with an agent beside each; {HOSTS} further")
        say(console, "agents have no log, and host elements alone. Look into it from another terminal:")
        say(console, f"  {elf_command()} elements {play.app} --hosts --socket {fleet.socket(fleet.names[0])}")
        console.print()
        app_id, bundle = _submission(fleet, play)
        board = ElementBoard(play, seconds, _rows(fleet, len(logs)))
        with one_error(), screen_for(console, board) as screen:
            performance = ElementPerformance(fleet, board, screen, writer, app_id, bundle)
            run_orderly(performance.run)
        found = play.judge(performance.windows, logs, performance.kill)
        _conclude(console, performance, found)


def _logs(directory: Path, play: ElementPlay) -> list[Path]:
    return [directory / f"shop-{number}" / f"{stream}.json" for number, stream in enumerate(play.streams, 1)]


def _agents(play: ElementPlay, logs: Sequence[Path]) -> list[AgentSpec]:
    """An agent beside each server, and some without."""
    reading = [
        AgentSpec(f"agent-{number}", (_stream(play, stream, log),))
        for number, (stream, log) in enumerate(zip(play.streams, logs, strict=True), 1)
    ]
    return [*reading, *(AgentSpec(f"host-{number}", ()) for number in range(1, HOSTS + 1))]


def _stream(play: ElementPlay, stream: str, log: Path) -> StreamFiles:
    """A server's log. One of the past is read from its beginning, and its time is that of its lines alone."""
    if play.past_hours:
        return StreamFiles(stream, (str(log),), read_from="beginning", time_field="time", clock="events")
    return StreamFiles(stream, (str(log),), time_field="time")


def _rows(fleet: AgentFleet, reading: int) -> dict[str, HostRow]:
    return {name: HostRow(reads=number < reading) for number, name in enumerate(fleet.names)}


def _log_time(play: ElementPlay, seconds: float) -> LogTime:
    """The times of the lines: those of the past begin with a whole hour, and end before now."""
    if not play.past_hours:
        return LogTime()
    begins_ms = (time.time_ns() // 1_000_000 // HOUR_MS - play.past_hours - 1) * HOUR_MS
    return LogTime(begins_ms, play.past_hours * HOUR_MS / 1000 / seconds)


def _submission(fleet: AgentFleet, play: ElementPlay) -> tuple[str, bytes]:
    """The shipped job, signed by the fleet's creator. Raises ElfError."""
    creator = load_creator(fleet.creator)
    client = SyncClient(str(fleet.socket(fleet.names[0])), _ANSWER_TIMEOUT_S)
    path = shipped(play.name)
    assert path is not None
    contents = contents_of(client, read_job(path), play.app, creator.name)
    return signed(creator, play.app, contents[play.app])


def _conclude(console: Console, performance: ElementPerformance, found: LogComparison) -> None:
    """Reports the comparison with the logs. Raises ElfError for differences that results do not name."""
    lines = performance.writer.lines
    say(console, f"\nHeld against the servers' own logs, {lines:,} lines counted anew without ELF:")
    say(console, f"  {found.words}: {'not what the logs hold' if found.wrong else 'equal to the logs'}")
    for line in found.wrong:
        say(console, f"      {line}")
    for line in found.notes:
        say(console, f"  {line}")
    if found.given_up:
        say(console, f"  the results say what they lack: {found.given_up}")
    if found.wrong and not (found.given_up and found.may_lack):
        raise ElfError("the results are not what the logs hold, and do not say so")
