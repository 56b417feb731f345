"""`elf demo`: a shop of real web servers, an agent beside each, a live query over all of them, and a kill."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from elf.errors import ElfError, UsageError
from elf.terminal.terminal import printable

SECONDS_MAX = 3600
TUNING, LENDING, LATENCY = "opo", "lending", "latency"
EXAMPLES = """\b
Examples:
  elf demo
  elf demo --seconds 90 --keep shop-logs
  elf demo figure1
  elf demo top-words
  elf demo ctr
  elf demo lending
  elf demo latency --seconds 310
"""


@click.command(epilog=EXAMPLES, short_help="See it work: web servers, agents, a live answer, and a kill.")
@click.argument("job", metavar="[JOB]", required=False)
@click.option("--seconds", type=click.FloatRange(1, SECONDS_MAX), default=45, show_default=True,
              help="How long visitors send requests and windows are shown.")  # fmt: skip
@click.option("--keep", metavar="DIR", type=click.Path(file_okay=False, path_type=Path),
              help="Keep the servers' logs in DIR; else they are deleted at the end.")  # fmt: skip
def demo(job: str | None, seconds: float, keep: Path | None) -> None:
    """See ELF at work: 8 small web servers on this machine, 8 agents beside them, and one live query over all of them.

    On the way one agent is killed and started again: the answer goes on and says which agent is missing. The demo needs
    no configuration, listens on 127.0.0.1 only, and leaves nothing behind.

    With JOB, one of the jobs written in Python that come with ELF runs on the agents instead: micro_promotion,
    product_bundling, sale_prediction, spam_campaign or kmeans; or figure1, the three jobs of the paper's Figure 1, one
    of which asks the other two. In the end all results are compared with the servers' logs, counted anew: the exit code
    is 1 if they differ.

    opo finds, within a minute or so, how prominent visitors like an offer best, by trying it out on them. top-words and
    ctr have keyed elements, over logs that are written as you watch: an agent that hosts some is killed, and the
    results go on. In the logs of ctr 54 hours pass, up to now; one server logs ads, the other one clicks on them.

    lending is five queries that read each other: interest and approval at a lending company, by area and overall, in
    windows of 10 minutes to 24 hours. A whole day passes in the servers' logs, and in the end each query's windows are
    counted anew from them.

    latency is the demo's query with a limit: results are to be out half a second after their windows. Each phase of
    their way is shown, and the exit code is 1 if less than 99 of 100 were in time, or the phases do not account for it.
    """
    from elf.demo import DemoError  # only here: other commands load none of this
    from elf.demo.elements.element_plays import ELEMENT_PLAYS, element_play
    from elf.demo.elements.element_show import show_elements
    from elf.demo.interruption import orderly_end
    from elf.demo.jobs.job_plays import PLAYS, play
    from elf.demo.jobs.job_show import show_jobs
    from elf.demo.latency.latency_show import show_latency
    from elf.demo.lending.lending_show import show_lending
    from elf.demo.story.show import show
    from elf.demo.tuning.tuning_show import show_tuning
    from elf.terminal.console import open_console

    roles = play(job) if job is not None else None
    elements = element_play(job) if job is not None else None
    if job not in (None, TUNING, LENDING, LATENCY) and roles is None and elements is None:
        every = ", ".join((*PLAYS, *ELEMENT_PLAYS, TUNING, LENDING, LATENCY))
        raise UsageError(f"{printable(job or '')}: there is no such demo; there are {every}")
    try:
        with orderly_end():
            if job == TUNING:
                show_tuning(open_console(sys.stdout), seconds, keep)
            elif job == LENDING:
                show_lending(open_console(sys.stdout), seconds, keep)
            elif job == LATENCY:
                show_latency(open_console(sys.stdout), seconds, keep)
            elif elements is not None:
                show_elements(open_console(sys.stdout), elements, seconds, keep)
            elif roles is None:
                show(open_console(sys.stdout), seconds, keep)
            else:
                show_jobs(open_console(sys.stdout), roles, seconds, keep)
    except BrokenPipeError:  # of standard output
        raise
    except (DemoError, OSError) as error:
        raise ElfError(f"the demo could not go on: {error}") from error
