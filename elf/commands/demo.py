"""`elf demo`: a shop of real web servers, real requests, and three questions over what they wrote."""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from elf.demo import DemoError, LoadReport, Server, Shop
from elf.errors import ElfError, UsageError
from elf.local import LocalOptions, LocalRun, Source
from elf.output import result_table, terminal

SERVERS = 8
SECONDS_MAX = 3600
FIGURE_4 = """\
SELECT product,SUM(clicks_count)
FROM *
WHERE store == `video_games`
GROUP BY product
SORT BY SUM(clicks_count) DESC
LIMIT 10
WINDOWING 30 SECONDS;"""
BY_PLACE = """\
SELECT user.location AS location, SUM(buys_count) AS bought, SUM(clicks_count) AS clicks, AVG(clicks_count)
FROM events
GROUP BY user.location
ORDER BY bought DESC
LIMIT 5"""
BY_STATUS = """\
SELECT status, COUNT(*) AS answers, SUM(body_bytes_sent) AS bytes
FROM access
GROUP BY status"""
EXAMPLES = """\b
Examples:
  elf demo
  elf demo --seconds 60 --keep shop-logs
"""


@click.command(epilog=EXAMPLES, short_help="See it work: web servers, visitors, and answers from their logs.")
@click.option("--seconds", type=click.FloatRange(1, SECONDS_MAX), default=20, show_default=True,
              help="How long visitors send requests.")  # fmt: skip
@click.option("--keep", metavar="DIR", type=click.Path(file_okay=False, path_type=Path),
              help="Keep the servers' logs in DIR; else they are deleted at the end.")  # fmt: skip
def demo(seconds: float, keep: Path | None) -> None:
    """See ELF at work: 8 small web servers on this machine, real requests, three questions over their logs."""
    console = terminal(sys.stdout)
    with _directory(keep) as directory:
        try:
            servers, report = _run_shop(console, directory, seconds)
        except BrokenPipeError:  # of standard output
            raise
        except (DemoError, OSError) as error:
            raise ElfError(f"the shop could not run: {error}") from error
        console.print(
            f"{report.requests:,} requests answered, {report.errors:,} failed, "
            f"{report.views + report.buys:,} events logged."
        )
        events = Source("events", tuple(str(server.event_log) for server in servers))
        access = Source("access", tuple(str(server.access_log) for server in servers))
        _ask(console, "The paper's Figure 4, over the JSON event logs:", FIGURE_4, events)
        _ask(console, "Who buys, by a nested field:", BY_PLACE, events)
        answers = _ask(console, "What the servers answered, over nginx's combined access logs:", BY_STATUS, access)
        verdict = "all of them are in the result" if answers == report.requests else "which is not the same!"
        seen = f"The visitors counted {report.requests:,} answers, the logs {answers:,}: {verdict}."
        console.print(seen, soft_wrap=True)
        _suggest(console, keep)


@contextmanager
def _directory(keep: Path | None) -> Iterator[Path]:
    if keep is not None:
        try:
            keep.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ElfError(f"--keep {keep}: {(error.strerror or str(error)).lower()}") from error
        if any(keep.glob("shop-*")):
            raise UsageError(f"--keep {keep}: there are logs of an earlier demo in it; name another folder")
        yield keep
        return
    try:
        directory = tempfile.TemporaryDirectory(prefix="elf-demo-")
    except OSError as error:
        raise ElfError(f"no folder for the logs: {error.strerror or error} (--keep names another)") from error
    with directory as name:
        yield Path(name)


def _run_shop(console: Console, directory: Path, seconds: float) -> tuple[Sequence[Server], LoadReport]:
    """Starts the servers, lets visitors in, ends the servers; their logs are complete then."""
    with Shop(directory, servers=SERVERS) as shop:
        ports = ", ".join(str(server.port) for server in shop.servers)
        console.print(f"{SERVERS} web servers on 127.0.0.1, ports {ports}, logging into {escape(str(directory))}")
        columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
        with Progress(*columns, console=console, transient=True) as bar:
            task = bar.add_task("visitors", total=seconds)

            def show(report: LoadReport) -> None:
                flash = f", flash crowd on {report.flash_product}" if report.flash_views else ""
                bar.update(
                    task,
                    completed=report.elapsed_s,
                    description=f"{report.requests:,} requests{escape(flash)}",
                )

            report = shop.run_load(seconds, show)
        return shop.servers, report


def _ask(console: Console, title: str, text: str, source: Source) -> int:
    """Shows what the embedded agents answer; returns how many events stand behind it."""
    started = time.perf_counter()
    run = LocalRun(text, [source], LocalOptions(arrival_ms=time.time_ns() // 1_000_000, agents=SERVERS))
    console.print(f"\n[bold]{title}[/bold]")
    console.print(escape(text), style="cyan", soft_wrap=True)
    results = list(run.results())
    elapsed_s = time.perf_counter() - started
    for result in results:
        console.print(result_table(result, run.columns, console.width))
    events = sum(result.events for result in results)
    console.print(
        f"{events:,} events by {SERVERS} agents in {elapsed_s:.2f} s: {events / elapsed_s:,.0f} events/s",
        style="dim",
    )
    return events


def _suggest(console: Console, keep: Path | None) -> None:
    elf = "elf" if shutil.which("elf") else escape(sys.argv[0])
    lines = []
    if keep is None:
        lines.append(f"{elf} demo --keep shop-logs    # the same, and the logs stay")
        keep = Path("shop-logs")
    logs = escape(str(keep))
    lines += [
        f'{elf} local "SELECT store, SUM(clicks_count) FROM logs GROUP BY store" {logs}/shop-*/events.json',
        f'{elf} local "SELECT path, COUNT(*) FROM logs WHERE status >= 500 GROUP BY path" {logs}/shop-*/access.log',
        f'{elf} local --output json --agents 8 "SELECT product, SUM(buys_count) AS bought FROM logs GROUP BY product'
        f' ORDER BY bought DESC LIMIT 3 WINDOWING 5 SECONDS" {logs}/shop-*/events.json',
        f"{elf} local --help",
    ]
    console.print("\n[bold]Try next:[/bold]")
    for line in lines:
        console.print(f"  {line}", soft_wrap=True)
