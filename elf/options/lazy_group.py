"""Groups of commands that are loaded one at a time: each needs other parts of ELF."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import click


class LazyGroup(click.Group):
    """`commands_in` is a package, and `verbs` are its modules: each has a click command of its name."""

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
