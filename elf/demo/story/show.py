"""Runs the demo from start to end: shop and agents, the live part, and the comparison with the logs."""

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from elf.demo.agents.agents import AgentFleet, AgentSpec, StreamFiles
from elf.demo.errors import DemoError
from elf.demo.interruption import run_orderly, undisturbed_end
from elf.demo.load.load import LoadReport
from elf.demo.shop.fleet import Server, Shop
from elf.demo.story.acts import WINDOW_S, ActSchedule
from elf.demo.story.board import Board
from elf.demo.story.live import Performance, one_error
from elf.demo.story.screen import screen_for
from elf.demo.story.tally import count_lines, judge
from elf.errors import ElfError, UsageError

SERVERS = 8
VICTIM = "agent-5"
FIGURE_4 = f"""\
SELECT product,SUM(clicks_count)
FROM *
WHERE store == `video_games`
GROUP BY product
SORT BY SUM(clicks_count) DESC
LIMIT 10
WINDOWING {WINDOW_S} SECONDS;"""
BY_STATUS = "SELECT status, COUNT(*) AS answers FROM access GROUP BY status"


def show(console: Console, seconds: float, keep: Path | None) -> None:
    """Runs the demo. Raises DemoError and ElfError in one line; no process is left then."""
    with ExitStack() as stage:
        logs = kept(keep) if keep is not None else None
        directory = stage.enter_context(temporary_directory())
        shop = stage.enter_context(Shop(logs or directory, servers=SERVERS))
        ports = ", ".join(str(server.port) for server in shop.servers)
        say(console, f"{SERVERS} web servers on 127.0.0.1, ports {ports}, logging into {shop.directory}")
        fleet = stage.enter_context(AgentFleet(directory / "agents", agents_beside(shop.servers)))
        stage.enter_context(undisturbed_end())
        say(
            console,
            f"{SERVERS} agents beside them, a peer-to-peer overlay over TLS with no server in the middle. Ask one:",
        )
        say(console, f"  {elf_command()} status --socket {fleet.socket(fleet.names[0])}")
        performance, load = _play(console, seconds, shop, fleet)
        shop.stop()
        _conclude(console, performance, load)
    _suggest(console, keep)


def _play(console: Console, seconds: float, shop: Shop, fleet: AgentFleet) -> tuple[Performance, LoadReport]:
    console.print("\n[bold]The paper's Figure 4, with windows of 5 instead of 30 seconds so that it moves:[/bold]")
    console.print(escape(FIGURE_4), style="cyan", soft_wrap=True)
    if (left_out := ActSchedule(seconds).left_out) is not None:
        console.print(f"--seconds {seconds:g} is {left_out}: that part is left out", style="yellow", soft_wrap=True)
    console.print()
    board = Board(FIGURE_4, seconds, dict.fromkeys(fleet.names, "runs"))
    with one_error(), screen_for(console, board) as screen:
        performance = Performance(shop, fleet, board, screen, VICTIM)
        return performance, run_orderly(performance.run)


def _conclude(console: Console, performance: Performance, load: LoadReport) -> None:
    """Compares the fleet's counts with the shop's logs and the visitors' report."""
    windows = performance.board.windows
    servers = zip(performance.fleet.names, performance.shop.servers, strict=True)
    verdict = judge(windows, {name: (server.event_log, server.access_log) for name, server in servers}, WINDOW_S * 1000)
    complete = f"{verdict.complete} of {len(windows)} windows are complete: {verdict.complete_events:,} events"
    lacking = f"{verdict.lacking} say which agents are missing: {verdict.lacking_events:,} events of the others"
    console.print()
    if windows:
        say(console, complete + (f"; {lacking}" if verdict.lacking else ""))
    else:
        say(console, f"No window: they are {WINDOW_S} seconds long, and the first begins after the query is there.")
    if verdict.unsure:
        say(console, f"{verdict.unsure} had late events, or agents for a part of them: nothing exact to say of them")
    for line in verdict.wrong:
        say(console, f"  not what the logs hold: {line}")
    if verdict.complete + verdict.lacking > 0 and not verdict.wrong:
        say(console, "That is, to the event, what these agents' servers logged in these windows.")
    _ask_once(console, performance, load)


def _ask_once(console: Console, performance: Performance, load: LoadReport) -> None:
    """Asks for all that the access logs hold, and compares it with the visitors' report, or with the running agents'
    logs.
    """
    servers = dict(zip(performance.fleet.names, performance.shop.servers, strict=True))
    running = [name for name in servers if performance.fleet.is_running(name)]
    with one_error():
        answer = run_orderly(performance.once, BY_STATUS)
    answers = sum(row["answers"] for row in answer.rows)
    if len(running) == len(servers):
        known, whose = load.requests, f"The visitors counted {load.requests:,} answers"
    else:
        known = sum(count_lines(servers[name].access_log) for name in running)
        whose = f"{len(running)} agents run; their servers' access logs hold {known:,} lines"
    same = "the same" if answers == known else "which is not the same!"
    say(console, f"{whose}; the fleet, asked once over all it has of these logs, {answers:,}: {same}.")


def agents_beside(servers: tuple[Server, ...]) -> list[AgentSpec]:
    """agent-1 reads the logs of shop-0, and so on."""
    return [
        AgentSpec(
            f"agent-{number}",
            (StreamFiles("events", (str(server.event_log),)), StreamFiles("access", (str(server.access_log),))),
        )
        for number, server in enumerate(servers, 1)
    ]


def kept(keep: Path) -> Path:
    """A folder for logs that stay. Raises ElfError."""
    try:
        keep.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ElfError(f"--keep {keep}: {(error.strerror or str(error)).lower()}") from error
    if any(keep.glob("shop-*")):
        raise UsageError(f"--keep {keep}: there are logs of an earlier demo in it; name another folder")
    return keep.resolve()


@contextmanager
def temporary_directory() -> Iterator[Path]:
    """A folder that lasts as long as the block. Raises DemoError."""
    try:
        directory = tempfile.TemporaryDirectory(prefix="elf-demo-", ignore_cleanup_errors=True)
    except OSError as error:
        raise DemoError(f"no folder for it: {error.strerror or error} (TMPDIR names another)") from error
    with directory as name:
        yield Path(name)


def _suggest(console: Console, keep: Path | None) -> None:
    elf, lines = elf_command(), []
    if keep is None:
        lines.append(f"{elf} demo --keep shop-logs    # the same, and the logs stay")
        keep = Path("shop-logs")
    lines += [
        f'{elf} local "SELECT store, SUM(clicks_count) FROM logs GROUP BY store" {keep}/shop-*/events.json',
        f'{elf} local "SELECT path, COUNT(*) FROM logs WHERE status >= 500 GROUP BY path" {keep}/shop-*/access.log',
        f'{elf} local "SELECT user.location AS location, SUM(buys_count) AS bought FROM logs GROUP BY user.location'
        f' ORDER BY bought DESC LIMIT 5" {keep}/shop-*/events.json',
        f"{elf} agent --help    # agents of your own, beside your own servers",
        f"{elf} query --help",
    ]
    console.print("\n[bold]Try next:[/bold]")
    for line in lines:
        say(console, f"  {line}")


def say(console: Console, text: str) -> None:
    """Prints a line without wrapping it."""
    console.print(escape(text), soft_wrap=True)


def elf_command() -> str:
    """The command by which the viewer calls `elf` from the same shell."""
    if shutil.which("elf"):
        return "elf"
    return sys.argv[0] if Path(sys.argv[0]).name == "elf" else f"{sys.executable} -m elf"
