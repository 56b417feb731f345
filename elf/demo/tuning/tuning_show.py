"""Runs the demo of online parameter optimization from start to end: `elf demo opo`."""

import random
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console

from elf.demo.agents.agents import AgentFleet, AgentSpec, StreamFiles
from elf.demo.interruption import run_orderly, undisturbed_end
from elf.demo.jobs.job_plays import Role
from elf.demo.jobs.job_show import prepared
from elf.demo.shop.fleet import Shop
from elf.demo.story.live import one_error
from elf.demo.story.screen import screen_for
from elf.demo.story.show import elf_command, kept, say, temporary_directory
from elf.demo.tuning.offer_site import START
from elf.demo.tuning.offer_visitors import Taste
from elf.demo.tuning.tuning_board import TuningBoard
from elf.demo.tuning.tuning_live import TuningPerformance
from elf.demo.tuning.tuning_truth import read_visits, recount
from elf.errors import ElfError, UsageError

SERVERS = 4
SECONDS_MIN = 20.0
_ROLE = Role("opo", "compares two slices of the visits, and looks for the best prominence")


def show_tuning(console: Console, seconds: float, keep: Path | None) -> None:
    """Runs the demo. Raises DemoError and ElfError in one line, also where the logs say otherwise; no process is left
    then.
    """
    if seconds < SECONDS_MIN:
        raise UsageError(f"--seconds {seconds:g} is too short for a few comparisons: {SECONDS_MIN:g} at least")
    taste = Taste(round(random.uniform(0.6, 0.85), 2))
    with ExitStack() as stage:
        logs = kept(keep) if keep is not None else None
        directory = stage.enter_context(temporary_directory())
        agents = directory / "agents"
        shop = stage.enter_context(
            Shop(
                logs or directory,
                servers=SERVERS,
                shown=lambda number: agents / f"agent-{number + 1}/data/shown",
                program="elf.demo.tuning.offer_site",
            )
        )
        say(console, f"{SERVERS} web servers on 127.0.0.1, logging into {shop.directory}")
        fleet = stage.enter_context(AgentFleet(agents, _agents(shop)))
        stage.enter_context(undisturbed_end())
        say(console, f"{SERVERS} agents beside them; whose jobs they run has made a key, and the fleet trusts it:")
        say(console, f"  {elf_command()} submit opo --creator {fleet.creator}\n")
        board = TuningBoard(seconds, SERVERS)
        with one_error(), screen_for(console, board) as screen:
            performance = TuningPerformance(shop, fleet, board, screen, prepared(fleet, [_ROLE])[0], taste)
            run_orderly(performance.run)
        shop.stop()
        _conclude(console, board, taste, [server.event_log for server in shop.servers])


def _agents(shop: Shop) -> list[AgentSpec]:
    """agent-1 reads the log of shop-0, and so on."""
    return [
        AgentSpec(f"agent-{number}", (StreamFiles("visits", (str(server.event_log),)),))
        for number, server in enumerate(shop.servers, 1)
    ]


def _conclude(console: Console, board: TuningBoard, taste: Taste, logs: list[Path]) -> None:
    """Holds the outcomes against the logs, and the best point against the visitors' taste. Raises ElfError."""
    visits = read_visits(logs)
    found = recount(visits, board.outcomes)
    console.print()
    say(console, f"Held against the servers' own logs, {len(visits):,} visits worked out anew without ELF:")
    late = f"; {found.late} lack visits that came too late for their slots" if found.late else ""
    sign = "✗" if found.wrong else "✓"
    say(console, f"  {sign} {found.same} of {len(board.outcomes)} outcomes are the same to the visit{late}")
    for line in found.wrong:
        say(console, f"      {line}")
    best = board.shown["best"]["prominence"] if board.shown is not None else START
    before, after, most = (100 * taste.clicks(at) for at in (START, best, taste.liked))
    say(console, f"Visitors like {taste.liked:g} best: {most:.1f} of 100 click then, which the job was not told.")
    say(
        console,
        f"  It has gone from {START:g} ({before:.1f} of 100) to {best:.3f} ({after:.1f} of 100):"
        f" {taste.gained(START, best):.0%} of what could be gained",
    )
    if found.wrong:
        raise ElfError(f"{len(found.wrong)} outcomes are not what the logs hold")
    if after < before:
        raise ElfError("the prominence that was found is worse than that at the start")
