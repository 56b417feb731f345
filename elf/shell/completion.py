"""Completes keywords, functions, streams, columns, jobs and the shell's own commands at the cursor."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from elf.shell.knowledge import Knowledge
from elf.shell.shell_commands import COMMANDS, FORMATS
from elf.statements.statements import Token, tokens
from elf.terminal.terminal import printable

STREAMS_LOOKED_AT_MAX = 8
STATEMENTS = ("SELECT", "EXPLAIN", "SHOW", "DESCRIBE")
_PLAIN_NAME = re.compile(r"@?[^\W\d]\w*")
_APP = re.compile(r"\bapp\s*\(\s*'([^']*)$", re.IGNORECASE)


class ShellCompleter(Completer):
    """Completes the word before the cursor; `vocabulary` gives keywords and functions."""

    def __init__(self, knowledge: Knowledge, vocabulary: Callable[[], tuple[Iterable[str], Iterable[str]]]) -> None:
        self._knowledge = knowledge
        self._vocabulary = vocabulary

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:  # noqa: ARG002
        before = document.text_before_cursor
        if before.lstrip().startswith("\\"):
            yield from self._of_command(before.lstrip())
        elif (app := _APP.search(before)) is not None:
            yield from _matching(app[1], self._knowledge.jobs(), "job")
        else:
            yield from self._of_statement(before, document.text_after_cursor)

    def _of_command(self, before: str) -> Iterator[Completion]:
        verb, blank, rest = before.partition(" ")
        if not blank:
            yield from _matching(verb, COMMANDS, "command")
            return
        match COMMANDS[verb].argument if verb in COMMANDS else "":
            case "FORMAT":
                yield from _matching(rest, FORMATS, "format")
            case "APP":
                yield from _matching(rest, self._knowledge.jobs(), "job")
            case "STREAM":
                yield from _matching(rest, self._knowledge.streams(), "stream")

    def _of_statement(self, before: str, after: str) -> Iterator[Completion]:
        earlier, typed = _split(before)
        if earlier and earlier[-1].kind == "unclosed":
            return
        last = earlier[-1].text.upper() if earlier else ""
        keywords, functions = self._vocabulary()
        match last:
            case "" | ";":
                yield from _matching(typed, STATEMENTS, "keyword")
            case "EXPLAIN":
                yield from _matching(typed, ("SELECT", "ANALYZE", "LATENCY"), "keyword")
            case "ANALYZE" | "LATENCY":
                yield from _matching(typed, ("SELECT",), "keyword")
            case "FROM" | "JOIN" | "DESCRIBE":
                yield from _matching(typed, map(_written, self._knowledge.streams()), "stream")
                if last != "DESCRIBE":
                    yield from _matching(typed, ("app('",), "job")
            case "SHOW":
                yield from _matching(typed, ("STREAMS", "JOBS", "FUNCTIONS", "ELEMENTS"), "keyword")
            case _:
                yield from _matching(typed, map(_written, self._columns(before, after)), "column")
                yield from _matching(typed, (f"{name}(" for name in sorted(functions)), "function")
                yield from _matching(typed, sorted(keywords), "keyword")

    def _columns(self, before: str, after: str) -> Sequence[str]:
        """Columns of the streams that the statement around the cursor reads; of any streams while it names none."""
        streams = [*_streams(_last_statement(before)), *_streams(_first_statement(after))]
        streams = streams or list(self._knowledge.streams()[:STREAMS_LOOKED_AT_MAX])
        return list(dict.fromkeys(column for stream in streams for column in self._knowledge.columns(stream)))


def _matching(typed: str, names: Iterable[str], kind: str) -> Iterator[Completion]:
    for name in names:
        if name.lower().startswith(typed.lower()) and name == printable(name):
            yield Completion(name, -len(typed), display_meta=kind)


def _split(text: str) -> tuple[list[Token], str]:
    """The tokens before the word being typed, and that word."""
    found = [word for word in tokens(text) if word.kind != "comment"]
    typed = ""
    if found and (found[-1].kind in ("word", "unclosed") and (found[-1].kind == "word" or found[-1].text[0] == '"')):
        typed = found.pop().text
        while len(found) > 1 and found[-1].text == "." and found[-2].kind == "word":
            typed = f"{found.pop(-2).text}.{typed}"
            found.pop()
    return [word for word in found if word.kind != "space"], typed


def _written(name: str) -> str:
    """A name as ELF QL writes it: in quotes unless it is a plain word."""
    if all(_PLAIN_NAME.fullmatch(part) for part in name.split(".")):
        return name
    return '"' + name.replace('"', '""') + '"'


def _last_statement(text: str) -> list[Token]:
    found: list[Token] = []
    for word in tokens(text):
        if word.kind == "end":
            found = []
        elif word.kind not in ("space", "comment"):
            found.append(word)
    return found


def _first_statement(text: str) -> list[Token]:
    found: list[Token] = []
    for word in tokens(text):
        if word.kind == "end":
            break
        if word.kind not in ("space", "comment"):
            found.append(word)
    return found


def _streams(statement: list[Token]) -> Iterator[str]:
    for one, next_one in pairwise(statement):
        if one.text.upper() in ("FROM", "JOIN") and next_one.kind in ("word", "name"):
            yield next_one.text.strip('"').replace('""', '"')
