"""`elf submit`: a job written in Python, on every agent that has its stream."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path

import click
import msgspec

from agent.control.messages import Acknowledged, Ended
from elf.client.control_socket import control_socket
from elf.client.errors import JobEndedError
from elf.client.sync_client import SyncClient, SyncJob
from elf.options.fleet import ANSWER_TIMEOUT_S, command_line, explain_latency_option, output_option, socket_option
from elf.signing.creator import creator_in, creator_option
from elf.signing.stages import refuse_if_running, started
from elf.signing.submission import contents_of, job_file, signed
from elf.terminal.terminal import printable, tell

SETTLE_S = 5.0
"""Upper bound on the wait for all agents to report that they run the job; the job goes on in any case."""
EXAMPLES = """\b
Examples:
  elf submit errors.py
  elf submit --app errors-eu errors.py && elf follow errors-eu
  elf submit --explain-latency errors.py
  elf submit micro_promotion    # one that comes with ELF
"""


@click.command(epilog=EXAMPLES, short_help="Run a job written in Python.")
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@click.option("--app", metavar="NAME", help="The job's name; by default the one that its class has.")
@creator_option
@click.option("--explain", is_flag=True, help="Print the operators of the job and the components; nothing is sent.")
@explain_latency_option
@output_option("table", "json")
@socket_option
def submit(
    file: Path,
    app: str | None,
    creator_folder: Path | None,
    explain: bool,
    explain_latency: bool,
    output: str,
    socket: Path | None,
) -> None:
    """Run the job that FILE defines: one class that is an elf.Job.

    A name instead of a file may be that of a job that comes with ELF: micro_promotion, product_bundling,
    sale_prediction, spam_campaign, kmeans, top_words, ctr, opo or lending. `elf demo NAME` shows each of them.

    The file is executed here first, to read its definition; then it is signed with your key and runs, contained, beside
    every agent that has the job's stream. It goes on until `elf stop`. Its stages, if it has any, are jobs beside it.
    """
    job = job_file(file)
    if explain:
        from elf.explain import print_explained_job  # it needs all of ELF QL, which submitting does not

        print_explained_job(job.about, app or job.about.app, output)
        return
    if explain_latency:
        from elf.latency_explanation import print_job_latency_explanation  # it needs all of ELF QL

        print_job_latency_explanation(SyncClient(control_socket(socket), ANSWER_TIMEOUT_S), job.about, output)
        return
    creator = creator_in(creator_folder)
    client = SyncClient(control_socket(socket, creator_folder), ANSWER_TIMEOUT_S)
    name = app or job.about.app
    stages = contents_of(client, job, name, creator.name)
    app_id, bundle = signed(creator, name, stages.pop(name))
    if stages:
        refuse_if_running(client, name, app_id)
    with ExitStack() as stack:
        with started(client, creator, stages, creator_folder):
            running = stack.enter_context(client.submit(name, app_id, bundle))
        agents, expected = _until_settled(running, name)
    if output == "json":
        click.echo(
            msgspec.json.encode({"app": name, "app_id": app_id, "agents": agents, "expected": expected}).decode()
        )
        return
    click.echo(f"{printable(name)}: {agents} of {expected} agents run it")
    if stages:
        tell(f"its stages are {', '.join(map(printable, stages))}")
    tell(f"{command_line('logs', name, socket)} shows what it says, {command_line('follow', name, socket)} its windows")


def _until_settled(job: SyncJob, name: str) -> tuple[int, int]:
    """Number of agents that run the job, and of agents on its roster, once all run it or the wait is over. Raises
    JobEndedError.
    """
    deadline = time.monotonic() + SETTLE_S
    agents = expected = 0
    steady_at = deadline
    while (now := time.monotonic()) < min(deadline, steady_at):
        match job.wait(min(deadline, steady_at) - now):
            case Acknowledged(agents=agents, expected=expected):
                steady_at = time.monotonic() + 0.5 if agents == expected > 0 else deadline
            case Ended(reason=reason):
                raise JobEndedError(name, reason, job.failure)
    return agents, expected
