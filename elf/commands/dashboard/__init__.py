"""`elf dashboard`: the fleet in a browser."""

from __future__ import annotations

from pathlib import Path

import click

from elf.client.control_socket import control_socket
from elf.client.sync_client import SyncClient
from elf.errors import ElfError
from elf.options.fleet import ANSWER_TIMEOUT_S, socket_option

EXAMPLES = """\b
Examples:
  elf dashboard
  elf dashboard --agent web-5:7701
  ssh -L 8420:127.0.0.1:8420 web-5   # then open the printed link here
  elf dashboard --listen 0.0.0.0:8420 --token-file token --certificate page.pem --key page.key

\b
The page acts with your rights (elf rights), whoever opens it: so it takes a token, which is in the printed link.
"""
_file = click.Path(dir_okay=False, path_type=Path)


@click.command(epilog=EXAMPLES, short_help="Show the fleet in a browser.")
@click.option("--listen", "address", metavar="HOST:PORT", default="127.0.0.1:8420", show_default=True,
              help="Where to serve the page; port 0 for any.")  # fmt: skip
@click.option("--token-file", metavar="FILE", type=_file, help="The token that opens the page; else one is made up.")
@click.option("--certificate", metavar="FILE", type=_file, help="Serve over HTTPS with this certificate (PEM).")
@click.option("--key", metavar="FILE", type=_file, help="The certificate's key.")
@click.option("--browser-authority", "browsers", metavar="FILE", type=_file,
              help="Let in browsers with a certificate of this authority, instead of a token.")  # fmt: skip
@click.option("--reports", "reports_folder", metavar="DIR", type=click.Path(path_type=Path),
              help="Show the reports that elf batch reconcile --html has written there.")  # fmt: skip
@socket_option
def dashboard(
    address: str,
    token_file: Path | None,
    certificate: Path | None,
    key: Path | None,
    browsers: Path | None,
    reports_folder: Path | None,
    socket: Path | None,
) -> None:
    """Serve a page that shows the fleet, its jobs and their results, and runs queries as far as you may.

    The page asks the agent as elf query does. Nothing is loaded from elsewhere. Needs the extra elf-stream[web].
    """
    from elf.dashboard.listening import bound_socket, listening
    from elf.dashboard.reports import ReportFolder

    place = listening(address, token_file, certificate, key, browsers)
    reports = None if reports_folder is None else ReportFolder(reports_folder)
    client = SyncClient(control_socket(socket), ANSWER_TIMEOUT_S)
    with client:  # raises where no agent listens
        pass
    try:
        from elf.dashboard.server import serve
    except ModuleNotFoundError as error:
        raise ElfError(f"elf dashboard needs {error.name}: pip install 'elf-stream[web]'") from None
    bound = bound_socket(place)
    url = place.url(bound.getsockname()[1])
    is_printed = place.token is not None and token_file is None
    click.echo(f"{url}login?token={place.token}" if is_printed else url)
    serve(client, place, bound, reports)
