"""Runs command lines one after the other in this process, which share a JVM so; what each printed, as JSON lines."""

from __future__ import annotations

import contextlib
import io
import json
import shlex
import sys

import click

from elf.cli import cli
from elf.errors import ElfError


def run(line: str) -> str:
    """What it prints on standard output, and how it fails."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        try:
            code = cli.main(shlex.split(line)[1:], prog_name="elf", standalone_mode=False) or 0
        except (ElfError, click.UsageError) as error:
            printed.write(f"{error}\n")
            code = 1
    return printed.getvalue() + (f"exit code {code}\n" if code else "")


if __name__ == "__main__":
    for line in json.load(sys.stdin):
        sys.stdout.write(json.dumps(run(line)) + "\n")
        sys.stdout.flush()
