"""`elf agent`: the daemon beside a web server."""

from __future__ import annotations

import os
from pathlib import Path

import click

from elf.errors import ElfError, UsageError

POLARS_THREADS = "2"
"""An agent is a guest on its machine: it works on small blocks, and Polars would start a thread for every core."""
EXAMPLES = """\b
Examples:
  elf agent --config /etc/elf/agent.toml
"""


@click.command(epilog=EXAMPLES, short_help="Run the agent beside a web server.")
@click.option("--config", "file", metavar="FILE", type=click.Path(path_type=Path), required=True,
              help="The agent's configuration; `elf config check FILE` names its faults.")  # fmt: skip
def agent(file: Path) -> None:
    """Run one agent of the fleet until it is told to end (SIGTERM, Ctrl-C).

    It logs to standard error, one JSON object a line. On the first signal it hands over what it is responsible for
    and ends with exit code 0; on a second one it ends at once.
    """
    os.environ.setdefault("POLARS_MAX_THREADS", POLARS_THREADS)
    # Only now: the number of threads counts when Polars is loaded.
    from agent import ConfigError, StartError, load_config

    try:
        config = load_config(file)
    except ConfigError as error:
        raise UsageError("\n".join(error.lines)) from error
    from agent import run_agent  # and with it all the rest

    try:
        code = run_agent(config)
    except StartError as error:
        raise ElfError(str(error)) from error
    if code:
        raise click.exceptions.Exit(code)
