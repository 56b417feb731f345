"""The `elf` command: one verb a file in `elf/commands/`."""

from __future__ import annotations

import os
import sys

import click

from elf.commands.demo import demo
from elf.commands.local import local
from elf.errors import ElfError, UsageError

EPILOG = 'Try: elf local "SELECT status, COUNT(*) FROM logs GROUP BY status" access.log'


@click.group(epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="elf-stream", prog_name="elf")
def cli() -> None:
    """ELF answers questions about web server logs where they are written, without a server in the middle."""


cli.add_command(local)
cli.add_command(demo)


def main() -> None:
    """Runs the command line; errors become one line on stderr: exit code 2 for usage, 1 at run time."""
    try:
        code = cli.main(prog_name="elf", standalone_mode=False) or 0
        sys.stdout.flush()
    except click.UsageError as error:
        code = _complain(error.format_message(), error.ctx.command_path if error.ctx else "elf", 2)
    except click.ClickException as error:
        code = _complain(error.format_message(), "elf", 1)
    except UsageError as error:
        code = _complain(str(error), "elf", 2)
    except ElfError as error:
        code = _complain(str(error), "elf", 1)
    except (click.Abort, KeyboardInterrupt):
        code = 130
    except BrokenPipeError:
        # The reader has gone (`| head`): keep the interpreter from complaining when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 141
    sys.exit(code)


def _complain(message: str, command: str, code: int) -> int:
    click.echo(f"{command}: {message}", err=True)
    return code
