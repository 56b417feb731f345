r"""The shell's own commands, which begin with a backslash."""

from __future__ import annotations

from typing import NamedTuple

FORMATS = ("table", "json", "csv", "plot")


class ShellCommand(NamedTuple):
    """A command's argument, "" for none, and its description."""

    argument: str
    does: str


COMMANDS = {
    r"\?": ShellCommand("", "this help"),
    r"\q": ShellCommand("", "leave the shell; so does Ctrl-D"),
    r"\streams": ShellCommand("", "list the streams: SHOW STREAMS"),
    r"\jobs": ShellCommand("", "list the fleet's jobs: SHOW JOBS"),
    r"\elements": ShellCommand("", "list the elements of keyed jobs: SHOW ELEMENTS"),
    r"\functions": ShellCommand("", "list what queries can call: SHOW FUNCTIONS"),
    r"\d": ShellCommand("STREAM", "list a stream's columns: DESCRIBE STREAM"),
    r"\follow": ShellCommand("APP", "show the windows of a job that runs; Ctrl-C leaves it alone"),
    r"\stop": ShellCommand("APP", "stop a job"),
    r"\o": ShellCommand("FORMAT", "print windows as table, json, csv or plot"),
    r"\watch": ShellCommand("", "let windows replace each other, or follow each other"),
    r"\timing": ShellCommand("", "say how long statements take, or stop saying so"),
}
