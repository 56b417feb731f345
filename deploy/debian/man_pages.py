"""Writes a manual page for each command of `elf`, from the text of its `--help`.

    man_pages.py FOLDER      elf.1, elf-query.1, elf-ca-issue.1, ...

Runs with the Python of the environment whose commands are described.
"""

from __future__ import annotations

import inspect
import os
import re
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import click

from elf.cli import cli

SECTION = 1


def commands(command: click.Command, context: click.Context) -> Iterator[click.Context]:
    """The contexts of a command and of all commands below it."""
    yield context
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            if below is not None and not below.hidden:
                yield from commands(below, click.Context(below, info_name=name, parent=context))


def page(context: click.Context, version: str, date: str) -> str:
    """One manual page."""
    command = context.command
    name = context.command_path.replace(" ", "-")
    summary = command.get_short_help_str(limit=200).rstrip(".")
    lines = [
        f'.TH "{escaped(name.upper())}" "{SECTION}" "{date}" "elf {escaped(version)}" "ELF"',
        ".nh",
        ".SH NAME",
        rf"{escaped(name)} \- {escaped(summary[:1].lower() + summary[1:])}",
        ".SH SYNOPSIS",
        rf"\fB{escaped(context.command_path)}\fP {escaped(' '.join(command.collect_usage_pieces(context)))}",
        ".SH DESCRIPTION",
        *paragraphs(inspect.cleandoc(command.help or summary)),
    ]
    records = [record for one in command.get_params(context) if (record := one.get_help_record(context))]
    if described := [record for record in records if record[1]]:
        lines.append(".SH OPTIONS")
        lines += [line for record in described for line in tagged(*record)]
    if isinstance(command, click.Group):
        lines.append(".SH COMMANDS")
        for one in command.list_commands(context):
            below = command.get_command(context, one)
            if below is not None:
                lines += tagged(f"{name}-{one}({SECTION})", below.get_short_help_str(limit=200))
    if command.epilog:
        heading, *text = inspect.cleandoc(command.epilog).replace("\b", "").strip().splitlines()
        lines += [f".SH {escaped(heading.rstrip(':').upper())}", ".nf", *map(escaped, text or [heading]), ".fi"]
    if context.parent is not None:
        lines += [".SH SEE ALSO", rf"\fB{escaped(context.parent.command_path.replace(' ', '-'))}\fP({SECTION})"]
    return "\n".join(lines) + "\n"


def paragraphs(text: str) -> Iterator[str]:
    """Paragraphs; those that click is told to leave as they are keep their lines."""
    for block in re.split(r"\n\s*\n", text):
        if block.lstrip().startswith("\b"):
            yield from (".nf", *map(escaped, block.replace("\b", "").strip("\n").splitlines()), ".fi")
        else:
            yield from (".PP", escaped(" ".join(block.split())))


def tagged(term: str, text: str) -> Iterator[str]:
    """An entry of a list of definitions."""
    yield from (".TP", rf"\fB{escaped(term)}\fP", escaped(" ".join(text.split())))


def escaped(text: str) -> str:
    """The text with characters that roff would interpret spelled out."""
    text = text.replace("\\", r"\e").replace("-", r"\-")
    return rf"\&{text}" if text.startswith((".", "'")) else text


def main() -> None:
    """Writes all pages."""
    folder, version = Path(sys.argv[1]), sys.argv[2]
    date = f"{datetime.fromtimestamp(int(os.environ['SOURCE_DATE_EPOCH']), UTC):%Y-%m-%d}"
    folder.mkdir(parents=True, exist_ok=True)
    settings = cli.context_settings
    for context in commands(cli, click.Context(cli, info_name="elf", **settings)):
        name = context.command_path.replace(" ", "-")
        (folder / f"{name}.{SECTION}").write_text(page(context, version, date))


if __name__ == "__main__":
    main()
