"""Runs the demo of lending from start to end: `elf demo lending`."""

import random
import time
from contextlib import ExitStack, closing
from pathlib import Path

from rich.console import Console

from elf.demo.agents.agents import AgentFleet, AgentSpec, StreamFiles
from elf.demo.elements.log_writing import LogTime, LogWriter
from elf.demo.interruption import run_orderly, undisturbed_end
from elf.demo.lending.borrowers import Borrowers
from elf.demo.lending.lending_board import LendingBoard
from elf.demo.lending.lending_live import LendingPerformance
from elf.demo.lending.lending_truth import (
    APP,
    DAY_MS,
    HOUR_MS,
    MINUTE_MS,
    OPERATORS,
    agreement,
    clock,
    read_applications,
)
from elf.demo.shop.fleet import Shop
from elf.demo.story.live import one_error
from elf.demo.story.screen import screen_for
from elf.demo.story.show import elf_command, kept, say, temporary_directory
from elf.errors import ElfError, UsageError

SERVERS = 4
SECONDS_MIN = 20.0
RATE = 120
"""Applications per second."""
BEFORE_MS, AFTER_MS = HOUR_MS, 20 * MINUTE_MS
"""Time in the logs before the whole day, and after it: a window closes once later events have come."""
PAST_MS = HOUR_MS
"""Least time since the end of the day, so that nothing in the logs is of the future."""
LEAD_MS = 2 * HOUR_MS
"""Upper bound on the time by which logs are ahead of windows: on a busy machine, borrowers wait."""


def show_lending(console: Console, seconds: float, keep: Path | None) -> None:
    """Runs the job on a fleet and compares each operator's windows with the logs. Raises DemoError and ElfError in one
    line, also for differences; no process is left then.
    """
    if seconds < SECONDS_MIN:
        raise UsageError(f"--seconds {seconds:g} is too short for a day: {SECONDS_MIN:g} at least")
    midnight_ms = last_midnight(time.time_ns() // 1_000_000)
    begins_ms = midnight_ms - DAY_MS - BEFORE_MS
    log_time = LogTime(begins_ms, (midnight_ms + AFTER_MS - begins_ms) / 1000 / seconds)
    with ExitStack() as stage:
        logs = kept(keep) if keep is not None else None
        directory = stage.enter_context(temporary_directory())
        shop = stage.enter_context(Shop(logs or directory, servers=SERVERS, program="elf.demo.lending.lending_site"))
        say(console, f"{SERVERS} web servers of a lending company on 127.0.0.1, logging into {shop.directory}.")
        say(console, f"Borrowers apply from {clock(begins_ms)} on, of the past: an hour passes in"
                     f" {HOUR_MS / 1000 / log_time.speed:.1f} s.")  # fmt: skip
        fleet = stage.enter_context(AgentFleet(directory / "agents", _agents(shop)))
        stage.enter_context(undisturbed_end())
        say(console, f"{SERVERS} agents beside them; the job's windows are of 10 and 30 minutes, 1, 6 and 24 hours:")
        say(console, f"  {elf_command()} submit {APP} --creator {fleet.creator}\n")
        borrowers = stage.enter_context(closing(Borrowers([server.port for server in shop.servers], random.Random())))
        writer = LogWriter((), RATE, borrowers.apply, log_time, LEAD_MS)
        board = LendingBoard(seconds)
        with one_error(), screen_for(console, board) as screen:
            performance = LendingPerformance(fleet, board, screen, writer, midnight_ms)
            run_orderly(performance.run)
        shop.stop()
        conclude(console, performance, [server.event_log for server in shop.servers])


def last_midnight(now_ms: int) -> int:
    """The last midnight (UTC) that is so long ago that the demo's logs may end after it.

    >>> last_midnight(2 * DAY_MS + PAST_MS - 1) // DAY_MS, last_midnight(2 * DAY_MS + PAST_MS) // DAY_MS
    (1, 2)
    """
    return (now_ms - PAST_MS) // DAY_MS * DAY_MS


def _agents(shop: Shop) -> list[AgentSpec]:
    """agent-1 reads the log of shop-0, and so on; the time is that of the logs alone."""
    return [AgentSpec(f"agent-{number}", (_stream(server.event_log),)) for number, server in enumerate(shop.servers, 1)]


def _stream(log: Path) -> StreamFiles:
    return StreamFiles("loans", (str(log),), read_from="beginning", time_field="date", clock="events")


def conclude(console: Console, performance: LendingPerformance, logs: list[Path]) -> None:
    """Reports the comparison with the logs. Raises ElfError for differences."""
    applications = read_applications(logs)
    say(console, f"\nHeld against the servers' own logs, {len(applications):,} applications with an interest rate:")
    differing = []
    for one in OPERATORS:
        found = agreement(one, performance.windows[one.name], applications, performance.upto_ms)
        is_right = found.same == found.windows > 0 and not found.wrong
        say(console, f"  {'✓' if is_right else '✗'} {found.same:,} of {found.windows:,} windows of op{one.number}"
                     f" ({one.name}, {one.about}) agree")  # fmt: skip
        for line in found.wrong:
            say(console, f"      {line}")
        if not is_right:
            differing.append(f"op{one.number}")
    states, panes = performance.merged
    say(console, f"{states:,} states were merged for windows of several panes; these have {panes:,}, with empty ones.")
    if differing:
        raise ElfError(f"the windows of {', '.join(differing)} are not what the logs hold")
