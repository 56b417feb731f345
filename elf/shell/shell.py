"""The loop of `elf shell`: reads statements, lets a backend answer them, and survives their errors."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from types import FrameType

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.completion import ThreadedCompleter
from prompt_toolkit.filters import Condition, completion_is_selected
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.input.typeahead import get_typeahead, store_typeahead
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys

from elf.errors import ElfError, UsageError
from elf.output.view import View, ViewLimits
from elf.shell.completion import ShellCompleter
from elf.shell.highlighting import STYLE, StatementLexer
from elf.shell.knowledge import Knowledge, Vocabulary
from elf.shell.shell_commands import COMMANDS, FORMATS
from elf.statements.backend import Backend, run_statement
from elf.statements.script import script_of
from elf.statements.statements import is_ended
from elf.terminal.terminal import can_be_drawn_over, printable, tell

INTERRUPTED = 130
PROMPT, CONTINUED = "elf> ", "...> "


class Shell:
    """Answers the statements and commands of one person, until they leave.

    `patient` answers statements; `brief`, which must not take long, lists names for completion.
    """

    def __init__(self, patient: Backend, brief: Backend, history: Path | None) -> None:
        self._backend = patient
        self._output = "table"
        self._watches = can_be_drawn_over(sys.stdout)
        self._tells_time = False
        self._leaves = False
        vocabulary = Vocabulary()
        self._prompt: PromptSession[str] = PromptSession(
            PROMPT,
            multiline=True,
            prompt_continuation=CONTINUED,
            history=_history(history),
            lexer=StatementLexer(vocabulary),
            style=STYLE,
            completer=ThreadedCompleter(ShellCompleter(Knowledge(brief), vocabulary)),
            complete_while_typing=False,
            key_bindings=_keys(),
        )

    def run(self) -> int:
        """Returns the exit code when Ctrl-D or `\\q` ends it."""
        while not self._leaves:
            try:
                text = self._prompt.prompt()
                if not self._is_taken_back():
                    self.handle(text)
            except KeyboardInterrupt:
                continue
            except EOFError:
                break
        return 0

    def _is_taken_back(self) -> bool:
        """Whether Ctrl-C was the next key, and came too early for the terminal to make a signal of it."""
        source = self._prompt.input
        keys = [*get_typeahead(source), *source.read_keys()]
        taken_back = bool(keys) and keys[0].key == Keys.ControlC
        store_typeahead(source, keys[taken_back:])
        return taken_back

    def terminate(self, _signal: int, _frame: FrameType | None) -> None:
        """Answers SIGTERM: the terminal is put in order, and a query that runs ends with its connection."""
        app = self._prompt.app
        if not (app.is_running and app.loop):
            raise SystemExit(INTERRUPTED)
        app.loop.call_soon_threadsafe(self._give_up_prompt)

    def _give_up_prompt(self) -> None:
        app = self._prompt.app
        if app.future is None or app.future.done():
            raise SystemExit(INTERRUPTED)
        app.exit(exception=SystemExit(INTERRUPTED))

    def handle(self, text: str) -> None:
        """Answers one input: a command, or statements, of which the first that fails is the last."""
        text = text.strip()
        began = time.monotonic()
        try:
            if text.startswith("\\"):
                self._command(text)
            elif text:
                script_of(text).run(self._backend, self._view, ViewLimits())
        except ElfError as error:
            tell("\n".join(printable(line) for line in str(error).split("\n")))
        except BrokenPipeError:
            self._leaves = True
        if self._tells_time and text:
            tell(f"{time.monotonic() - began:.3f} s")

    @property
    def _view(self) -> View:
        return View(self._output, self._watches and self._output in ("table", "plot"))

    def _command(self, text: str) -> None:
        verb, _, argument = text.removesuffix(";").strip().partition(" ")
        argument = argument.strip()
        command = COMMANDS.get(verb)
        if command is None:
            raise UsageError(rf"there is no command {verb}: \? lists those there are")
        if bool(argument) != bool(command.argument):
            raise UsageError(f"{verb} takes one {command.argument}" if command.argument else f"{verb} takes nothing")
        match verb:
            case r"\?":
                _print_help()
            case r"\q":
                self._leaves = True
            case r"\follow":
                self._backend.follow(argument, self._view)
            case r"\stop":
                self._backend.stop(argument)
                tell(f"{printable(argument)}: stopped")
            case r"\o" | r"\watch" | r"\timing":
                self._set(verb, argument)
            case _:
                run_statement(_statement(verb, argument), self._backend, self._view, ViewLimits())

    def _set(self, verb: str, argument: str) -> None:
        match verb:
            case r"\o" if argument not in FORMATS:
                raise UsageError(rf"\o knows no {argument}: the formats are {', '.join(FORMATS)}")
            case r"\o":
                self._output = argument
                tell(f"windows are printed as {argument}")
            case r"\watch":
                self._watches = not self._watches
                tell("windows replace each other" if self._watches else "windows follow each other")
            case _:
                self._tells_time = not self._tells_time
                tell(f"timing is {'on' if self._tells_time else 'off'}")


def _statement(verb: str, argument: str) -> str:
    if verb == r"\d":
        quoted = argument.replace('"', '""')
        return f'DESCRIBE "{quoted}"'
    return f"SHOW {verb[1:].upper()}"


def _print_help() -> None:
    from elf.output.listing import plain_table
    from elf.terminal.console import open_console

    rows = [[f"{name} {command.argument}".rstrip(), command.does] for name, command in COMMANDS.items()]
    open_console(sys.stdout).print(plain_table(["COMMAND", "WHAT IT DOES"], rows))
    tell("Statements end with ; and may have many lines. Ctrl-C stops a query, or gives up what is typed.")


def _history(path: Path | None) -> History:
    """The history file, which only its owner may read; without one, input is remembered until the shell ends."""
    if path is None:
        return InMemoryHistory()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(0o600)
        with path.open("a"):
            return FileHistory(path)
    except OSError as error:
        tell(f"{printable(str(path))}: {(error.strerror or str(error)).lower()}: the history ends with this shell")
        return InMemoryHistory()


def _keys() -> KeyBindings:
    """Enter takes a completion, ends a command, and a statement that has its `;`; else it begins a new line."""
    keys = KeyBindings()

    @Condition
    def is_done() -> bool:
        text = get_app().current_buffer.document.text.strip()
        return not text or text.startswith("\\") or is_ended(text)

    @keys.add("enter", filter=is_done & ~completion_is_selected)
    def _accept(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    @keys.add("enter", filter=completion_is_selected)
    def _take(event: KeyPressEvent) -> None:
        event.current_buffer.complete_state = None

    return keys
