"""Command groups that load one command at a time, since each needs other parts of ELF."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import click


class LazyGroup(click.Group):
    """A group of the click commands in the modules `verbs` of the package `commands_in`, each of its module's name."""

    def __init__(self, *arguments: Any, commands_in: str, verbs: Sequence[str], **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._package = commands_in
        self._verbs = verbs

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click gives it
        return list(self._verbs)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in self._verbs:
            return None
        command: click.Command = getattr(import_module(f"{self._package}.{cmd_name}"), cmd_name)
        return command
