"""`elf update`: another query for a running job, from a window on that has not begun."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from agent.control.messages import BeyondGroups, JobEntry, JobUpdated
from agent.runtime.model.bundle import Contents
from elf.client.control_socket import control_socket
from elf.client.sync_client import SyncClient
from elf.errors import ElfError, UsageError
from elf.options.fleet import ANSWER_TIMEOUT_S, app_argument, output_option, socket_option
from elf.options.groups import beyond_groups_option, max_groups_option
from elf.signing.creator import creator_of, creator_option, owned_job
from elf.signing.stages import stages_of, started, stop_stages
from elf.signing.submission import contents_of, job_file, signed
from elf.terminal.terminal import printable, tell
from overlay import parse_id

if TYPE_CHECKING:
    from overlay import Creator

EXAMPLES = """\b
Examples:
  elf update errors --query "SELECT path, COUNT(*) FROM access WHERE status >= 400 GROUP BY path WINDOWING 1 MINUTE"
  elf update errors --reset --query "SELECT COUNT(*) AS n FROM access WHERE status >= 500 WINDOWING 10 SECONDS"
  elf update micro-promotion --code micro_promotion.py
"""

LEFT_OUT = "windows of the version before that are open then are left out: sessions, or windows that EMIT CHANGES"


@click.command(epilog=EXAMPLES, short_help="Let a running job compute another query.")
@app_argument
@click.option("--query", "query_text", metavar="QUERY", help="What the job computes from now on.")
@click.option("--code", "file", metavar="FILE", type=click.Path(path_type=Path),
              help="The job's new file, signed with your key, if it is written in Python.")  # fmt: skip
@click.option("--reset", is_flag=True, help="Drop windows under way; by default they end on the query they began with.")
@max_groups_option
@beyond_groups_option
@creator_option
@output_option("table", "json")
@socket_option
def update(
    app: str,
    query_text: str | None,
    file: Path | None,
    reset: bool,
    max_groups: int,
    beyond_groups: BeyondGroups,
    creator_folder: Path | None,
    output: str,
    socket: Path | None,
) -> None:
    """Let the running job APP compute another QUERY over the same stream, or run other code.

    All agents prepare first; the new version then begins with the first window of which no agent has seen an event.
    Windows that are open then end on the query they began with, beside the new ones. So each window is computed by one
    version, and none is lost, but for open sessions and windows that EMIT CHANGES. Where an agent cannot run the query,
    the job stays as it is, and the error says which agent and why. Followers of the job get the windows of both
    versions, with their numbers.
    """
    client = SyncClient(control_socket(socket, creator_folder), ANSWER_TIMEOUT_S)
    if (query_text is None) == (file is None):
        raise UsageError("say what the job is to run: --query QUERY, or --code FILE")
    if query_text is not None:
        updated = client.update(app, query_text, reset=reset, max_groups=max_groups, beyond_groups=beyond_groups)
    else:
        assert file is not None
        updated = _update_code(client, app, file, creator_folder, reset=reset)
    if output == "json":
        click.echo(msgspec.json.encode(updated).decode())
        return
    click.echo(
        f"{printable(app)}: version {updated.version} in windows from {updated.starts} on, "
        f"{updated.agents} of {updated.expected} agents run it"
    )
    if updated.warning:
        tell(f"{printable(app)}: {printable(updated.warning)}")
    if updated.leaves_out:
        tell(f"{printable(app)}: {LEFT_OUT}")
    if updated.laggards:
        names = ", ".join(map(printable, updated.laggards))
        tell(f"{printable(app)}: still to come: {names}; without them until they have caught up")


def _update_code(client: SyncClient, app: str, file: Path, folder: Path | None, *, reset: bool) -> JobUpdated:
    """Signs a job's new file as the successor of the running one. New stages start before it, others change or end
    after it, so that nothing has changed where the update is refused.
    """
    running = owned_job(client, app)
    if running is None:
        raise UsageError(f"{printable(app)} is no job written in Python that runs: elf jobs lists those there are")
    if running.part_of:
        raise UsageError(f"{printable(app)} is a stage of {printable(running.part_of)}: update that job")
    creator = creator_of(running, folder)
    contents = contents_of(client, job_file(file), running.app, creator.name)
    there = stages_of(client, running)
    app_id, bundle = _following(creator, running, contents.pop(running.app))
    with started(client, creator, {name: one for name, one in contents.items() if name not in there}, folder):
        updated = client.update_bundle(running.app, app_id, bundle, reset=reset)
    for name, one in contents.items():
        if name in there and one.functions[0].text != there[name].query:
            try:
                client.update_bundle(name, *_following(creator, there[name], one), reset=reset)
            except ElfError as error:
                raise ElfError(f"{printable(app)} is updated, but not its stage {printable(name)}: {error}") from None
    stop_stages(client, [stage for name, stage in there.items() if name not in contents], folder)
    return updated


def _following(creator: Creator, running: JobEntry, contents: Contents) -> tuple[str, bytes]:
    """The app id, and the bundle that follows a running job's."""
    after = (running.counter, bytes.fromhex(running.mandate))
    return signed(creator, running.app, contents, after, parse_id(running.app_id))
