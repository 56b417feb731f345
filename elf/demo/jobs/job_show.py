"""Runs the demo of shipped jobs from start to end: `elf demo JOB`, `elf demo figure1`."""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console

from elf.client import SyncClient
from elf.demo.agents.agents import AgentFleet, AgentSpec, StreamFiles
from elf.demo.interruption import run_orderly, undisturbed_end
from elf.demo.jobs.job_board import JobBoard
from elf.demo.jobs.job_checks import Finding, check
from elf.demo.jobs.job_live import JobPerformance, Submission
from elf.demo.jobs.job_plays import Role
from elf.demo.shop.fleet import Shop
from elf.demo.story.live import one_error
from elf.demo.story.screen import screen_for
from elf.demo.story.show import SERVERS, elf_command, kept, say, temporary_directory
from elf.errors import ElfError, UsageError
from elf.signing.creator import load_creator
from elf.signing.shipped import shipped
from elf.signing.submission import contents_of, read_job, signed

_ANSWER_TIMEOUT_S = 20.0


def show_jobs(console: Console, roles: Sequence[Role], seconds: float, keep: Path | None) -> None:
    """Runs the jobs on a fleet and compares their results with the logs. Raises DemoError and ElfError in one line,
    also for differences; no process is left then.
    """
    needed_s = max(role.seconds_min for role in roles)
    if seconds < needed_s:
        raise UsageError(f"--seconds {seconds:g} is too short for these jobs: {needed_s:g} at least")
    with ExitStack() as stage:
        logs = kept(keep) if keep is not None else None
        directory = stage.enter_context(temporary_directory())
        agents = directory / "agents"
        shop = stage.enter_context(
            Shop(logs or directory, servers=SERVERS, shown=lambda number: agents / f"agent-{number + 1}/data/shown")
        )
        say(console, f"{SERVERS} web servers on 127.0.0.1, logging into {shop.directory}")
        fleet = stage.enter_context(AgentFleet(agents, _agents(shop)))
        stage.enter_context(undisturbed_end())
        say(console, f"{SERVERS} agents beside them; whose jobs they run has made a key, and the fleet trusts it:")
        for role in roles:
            say(console, f"  {elf_command()} submit {role.name} --creator {fleet.creator}")
        console.print()
        board = JobBoard(roles, seconds)
        with one_error(), screen_for(console, board) as screen:
            performance = JobPerformance(shop, fleet, board, screen, prepared(fleet, roles))
            servers = run_orderly(performance.run)
        findings = [check(role.app, performance.seen, servers) for role in roles]
        _conclude(console, roles, findings, sum(map(len, servers)))


def prepared(fleet: AgentFleet, roles: Sequence[Role]) -> list[Submission]:
    """Shipped jobs, signed by the fleet's creator. Raises ElfError."""
    creator = load_creator(fleet.creator)
    client = SyncClient(str(fleet.socket(fleet.names[0])), _ANSWER_TIMEOUT_S)
    made = []
    for role in roles:
        path = shipped(role.name)
        assert path is not None
        contents = contents_of(client, read_job(path), role.app, creator.name)
        app_id, bundle = signed(creator, role.app, contents[role.app])
        made.append(Submission(role, app_id, bundle))
    return made


def _agents(shop: Shop) -> list[AgentSpec]:
    """agent-1 reads the logs of shop-0, and so on."""
    return [
        AgentSpec(f"agent-{number}", (StreamFiles("events", (str(server.event_log),)),))
        for number, server in enumerate(shop.servers, 1)
    ]


def _conclude(console: Console, roles: Sequence[Role], findings: Sequence[Finding], events: int) -> None:
    """Reports the comparison with the logs. Raises ElfError for differences."""
    say(console, f"\nHeld against the servers' own logs, {events:,} events counted anew without ELF:")
    for role, found in zip(roles, findings, strict=True):
        sign = "✗" if found.wrong else "✓" if found.checked else "?"
        say(console, f"  {sign} {role.app}: {found.words}")
        for line in found.wrong:
            say(console, f"      {line}")
    wrong = sum(len(found.wrong) for found in findings)
    if wrong:
        raise ElfError(f"{wrong} of the jobs' results are not what the logs hold")
