"""The `elf` command: one verb a file in `elf/commands/`."""

from __future__ import annotations

import os
import sys

import click

from elf.commands.demo import demo
from elf.commands.local import local
from elf.errors import ElfError, UsageError
from elf.terminal import prepare_streams, printable, tell

EPILOG = 'Try: elf local "SELECT status, COUNT(*) FROM logs GROUP BY status" access.log'


@click.group(epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="elf-stream", prog_name="elf")
def cli() -> None:
    """ELF answers questions about web server logs where they are written, without a server in the middle."""


cli.add_command(local)
cli.add_command(demo)


def main() -> None:
    """Runs the command line; errors become one line on stderr: exit code 2 for usage, 1 at run time."""
    prepare_streams()
    try:
        code = cli.main(prog_name="elf", standalone_mode=False) or 0
        sys.stdout.flush()
    except click.exceptions.NoArgsIsHelpError as error:
        tell(error.format_message())
        code = 2
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else "elf"
        code = _complain(f"{error.format_message()} (see {command} --help)", command, 2)
    except click.ClickException as error:
        code = _complain(error.format_message(), "elf", 1)
    except UsageError as error:
        code = _complain(str(error), "elf", 2)
    except ElfError as error:
        code = _complain(str(error), "elf", 1)
    except (click.Abort, KeyboardInterrupt):
        code = 130
    except BrokenPipeError:
        # The reader has gone (`| head`).
        _drop_output()
        code = 141
    except OSError as error:
        where = error.filename or "cannot write the output"
        code = _complain(f"{where}: {(error.strerror or str(error)).lower()}", "elf", 1)
        _drop_output()
    sys.exit(code)


def _drop_output() -> None:
    """Keeps the interpreter from complaining when it flushes standard output at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _complain(message: str, command: str, code: int) -> int:
    """Says what is wrong; a query's error has further lines, with the place in the query."""
    tell("\n".join(printable(line) for line in f"{command}: {message}".split("\n")))
    return code
