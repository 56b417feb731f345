"""Runs the demo of latency from start to end: `elf demo latency`."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from rich.console import Console

from elf.demo.agents.agents import AgentFleet
from elf.demo.interruption import run_orderly, undisturbed_end
from elf.demo.latency.latency_board import LatencyBoard, claims
from elf.demo.latency.latency_live import APP, LatencyPerformance
from elf.demo.shop.fleet import Shop
from elf.demo.story.live import one_error
from elf.demo.story.screen import screen_for
from elf.demo.story.show import SERVERS, agents_beside, elf_command, kept, say, temporary_directory
from elf.errors import ElfError
from elf.output.latency_table import latency_table

PERCENT = 99.0
QUERY = """\
SELECT product, SUM(clicks_count) AS clicks
FROM events
GROUP BY product
ORDER BY clicks DESC
LIMIT 10
WINDOWING 1 SECOND
WITHIN 500 MILLISECONDS"""


def show_latency(console: Console, seconds: float, keep: Path | None) -> None:
    """Runs the query on a fleet, and judges how soon its results came. Raises DemoError and ElfError in one line, also
    where they were late; no process is left then.
    """
    with ExitStack() as stage:
        logs = kept(keep) if keep is not None else None
        directory = stage.enter_context(temporary_directory())
        shop = stage.enter_context(Shop(logs or directory, servers=SERVERS))
        say(console, f"{SERVERS} web servers on 127.0.0.1, logging into {shop.directory}")
        fleet = stage.enter_context(AgentFleet(directory / "agents", agents_beside(shop.servers)))
        stage.enter_context(undisturbed_end())
        say(console, f"{SERVERS} agents beside them; results are to be out half a second after their windows:\n")
        console.print(QUERY, style="cyan", markup=False, soft_wrap=True)
        say(console, f"\n  {elf_command()} latency {APP} --watch --socket {fleet.socket(fleet.names[0])}\n")
        board = LatencyBoard(seconds)
        with one_error(), screen_for(console, board) as screen:
            run_orderly(LatencyPerformance(shop, fleet, board, screen, QUERY).run)
        shop.stop()
        _conclude(console, board)


def _conclude(console: Console, board: LatencyBoard) -> None:
    """Reports where the time went, and what was found. Raises ElfError for what does not hold."""
    if board.found is None or not board.results:
        raise ElfError("no result has come in this time: try more --seconds")
    if not console.is_terminal:
        console.print(latency_table(board.found), soft_wrap=True)
    console.print()
    judged = claims(board.results, board.found, PERCENT)
    for one in judged:
        say(console, f"  {'✓' if one.is_right else '✗'} {one.text}")
    if not all(one.is_right for one in judged):
        raise ElfError("results were not as they are to be: a busy machine may be why; the phases above say where")
