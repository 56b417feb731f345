"""Shared options of the verbs of `elf batch`."""

from __future__ import annotations

import click

from elf.batch.session.session import LOCAL
from elf.errors import UsageError
from elf.options.times import between

archives_option = click.option(
    "--archive", "archives", metavar="URI", multiple=True, required=True,
    help="An archive, or a directory of archives: a path, or a URI that Hadoop reads (hdfs://...). May be repeated.",
)  # fmt: skip
master_option = click.option(
    "--master", metavar="MASTER", default=LOCAL, show_default=True,
    help="Where Spark runs: in this process, or spark://HOST:PORT, yarn, k8s://HOST:PORT.",
)  # fmt: skip
from_option = click.option("--from", "since", metavar="TIME", help="Only events from this time on.")
to_option = click.option("--to", "until", metavar="TIME", help="Only events before this time.")


streams_option = click.option(
    "--stream", "streams", metavar="NAME", multiple=True, help="Only rows of this stream; may be repeated."
)
skip_torn_option = click.option(
    "--skip-torn", is_flag=True, help="Go on without segments whose files are not whole, and say which."
)


def moments(since: str | None, until: str | None) -> tuple[int | None, int | None]:
    """The times of --from and --to in epoch ms. Raises UsageError for a malformed time, and for an empty range."""
    return between(("--from", "--to"), since, until)


def key_of(option: str, text: str | None) -> bytes | None:
    """A row key given in hex. Raises UsageError for any other text."""
    try:
        return None if text is None else bytes.fromhex(text)
    except ValueError:
        raise UsageError(f"{option} {text!r} is no key: write it in hex, as elf batch scan shows keys") from None
