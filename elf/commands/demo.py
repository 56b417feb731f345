"""`elf demo`: a shop of real web servers, an agent beside each, a live query over all of them, and a kill."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from elf.errors import ElfError

SECONDS_MAX = 3600
EXAMPLES = """\b
Examples:
  elf demo
  elf demo --seconds 90 --keep shop-logs
"""


@click.command(epilog=EXAMPLES, short_help="See it work: web servers, agents, a live answer, and a kill.")
@click.option("--seconds", type=click.FloatRange(1, SECONDS_MAX), default=45, show_default=True,
              help="How long visitors send requests and windows are shown.")  # fmt: skip
@click.option("--keep", metavar="DIR", type=click.Path(file_okay=False, path_type=Path),
              help="Keep the servers' logs in DIR; else they are deleted at the end.")  # fmt: skip
def demo(seconds: float, keep: Path | None) -> None:
    """See ELF at work: 8 small web servers on this machine, 8 agents beside them, one query over all, live.

    On the way one agent is killed, and started again: the answer goes on and says who is missing. The demo needs no
    configuration, listens on 127.0.0.1 only, and leaves nothing behind.
    """
    from elf.demo import DemoError  # only here: other commands load none of this
    from elf.demo.interruption import orderly_end
    from elf.demo.show import show
    from elf.output import terminal

    try:
        with orderly_end():
            show(terminal(sys.stdout), seconds, keep)
    except BrokenPipeError:  # of standard output
        raise
    except (DemoError, OSError) as error:
        raise ElfError(f"the demo could not go on: {error}") from error
