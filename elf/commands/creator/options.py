"""Shared options of commands for the holder of the fleet's authority."""

from __future__ import annotations

import click

from elf.commands.ca.options import DIRECTORY

ca_option = click.option(
    "--ca", "directory", metavar="CA_DIR", type=DIRECTORY, required=True,
    help="The folder of the fleet's authority, which elf ca init has made.",
)  # fmt: skip
