"""`elf ca token` and `elf ca serve`."""

from __future__ import annotations

import signal
from datetime import UTC, datetime
from pathlib import Path

import click

from elf.commands.ca.options import authority_errors, days_option, directory_argument, password_option, unlocked
from elf.errors import ElfError, UsageError
from elf.terminal.terminal import printable, tell
from overlay import AuthorityDirectory, format_address, parse_address

MINUTES = 60.0
MINUTES_MAX = 7 * 24 * 60.0
TOKEN_EXAMPLES = """\b
Examples:
  elf ca token shop-ca
  elf ca token shop-ca --name web-5 --minutes 10
"""
SERVE_EXAMPLES = """\b
Examples:
  elf ca serve shop-ca --listen 10.0.0.2
"""


@click.command(epilog=TOKEN_EXAMPLES, short_help="Make a token with which one agent enrols itself.")
@directory_argument
@click.option("--name", help="The agent that may use it; else any.")
@click.option("--minutes", type=click.FloatRange(0, MINUTES_MAX, min_open=True), default=MINUTES, show_default=True,
              help="How long it is good for.")  # fmt: skip
def token(directory: Path, name: str | None, minutes: float) -> None:
    """Make a token that admits one agent, once, within --minutes, while `elf ca serve` runs.

    It is printed and not stored: whoever has it can be that agent. It names the authority by its fingerprint, so that
    the new agent trusts no other. Neither the authority's password nor its key is needed.
    """
    from cryptography.hazmat.primitives.serialization import Encoding

    from agent.enrolment.token_register import TokenRegister

    with authority_errors():
        folder = AuthorityDirectory(directory)
        certificate = folder.certificate.public_bytes(Encoding.DER)
        made = TokenRegister(folder).new(certificate, minutes, name, datetime.now(UTC))
    click.echo(made.text)
    whose = f"for {name}, " if name is not None else ""
    tell(f"good once, {whose}for {minutes:g} minutes; on the agent's machine: elf agent enroll TOKEN@HOST")


@click.command(epilog=SERVE_EXAMPLES, short_help="Admit agents that have a token, and renew certificates.")
@directory_argument
@click.option(
    "--listen", metavar="HOST[:PORT]", required=True, help="Where agents reach it; port 7699 if none is named."
)
@days_option
@password_option
def serve(directory: Path, listen: str, days: float, password_file: Path | None) -> None:
    """Admit agents that have a token of `elf ca token`, and renew the certificates of others, until it is ended.

    The authority's key is opened once and stays in memory. A line is printed for each agent. Agents whose
    `identity.authority` names the service renew their certificates when a third of the time is left.
    """
    import trio

    from agent.enrolment.service import EnrolmentService

    host, port = _address(listen)
    with authority_errors():
        folder = AuthorityDirectory(directory)
        authority = unlocked(folder, password_file)
        service = EnrolmentService(folder, authority, days=days, now=lambda: datetime.now(UTC),
                                   tell=lambda line: click.echo(printable(line)))  # fmt: skip

    async def run() -> None:
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            listeners = await trio.open_tcp_listeners(port, host=host)
            tell(f"serves the authority of fleet {folder.fleet} at {format_address(host, port)}; Ctrl-C ends it")
            async with trio.open_nursery() as nursery:
                nursery.start_soon(service.serve, listeners)
                await anext(signals)
                nursery.cancel_scope.cancel()

    try:
        trio.run(run)
    except OSError as error:
        raise ElfError(f"--listen {listen}: {(error.strerror or str(error)).lower()}") from error


def _address(listen: str) -> tuple[str, int]:
    from agent import SERVICE_PORT

    is_bare = ":" not in listen or listen.endswith("]")
    try:
        return parse_address(f"{listen}:{SERVICE_PORT}" if is_bare else listen)
    except ValueError as error:
        raise UsageError(f"--listen: {error}") from error
