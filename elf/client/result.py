"""A window's result as received over the control socket."""

from __future__ import annotations

from typing import Any

import msgspec

from agent.control.messages import AskAnswer, PublishedWindow
from agent.runtime.function.result import WindowResult
from elf.client.errors import ControlProtocolError


class Result(WindowResult, frozen=True, kw_only=True):
    """The rows of one window, with everything a reader needs to judge them.

    `rows` are dicts of plain values in the order of the job's columns; the window's bounds are RFC 3339 texts, None for
    a query without WINDOWING. `contributors` of `expected` agents are in it; `missing` names at most 20 of the others.
    `other` aggregates the groups beyond the job's limit, which have no rows. `limited` are the aggregates that have
    left values out, with the number of groups where they did; `error` bounds how far approximate aggregates may be off
    in 99 of 100 cases. `columns` names the columns of the rows, which an update of the job may change; `version` counts
    its updates from 1. `final` is False where the window is still open (EMIT CHANGES): it comes again, with more
    events. `more`: the next result is of a window that ends, or grows, at the same moment. `evicted`, `shed`, `lost`,
    `failed`, `missed`: what a keyed job has given up since it has begun. `pane` (epoch milliseconds) is where
    `follow(app, after=...)` goes on; `json` is the agent's line, byte for byte.
    """

    rows: list[dict[str, Any]]
    columns: list[str] = msgspec.field(default_factory=list)
    pane: int = 0
    json: bytes = b""

    def to_bytes(self, bytes_max: int | None = None) -> bytes:  # noqa: ARG002 - the agent has kept to its own bound
        """The result's line as the agent wrote it."""
        return self.json


class LastWindows(msgspec.Struct, frozen=True):
    """A job's last windows, in order, with its query and the columns of its rows."""

    app: str
    query: str
    columns: list[str]
    windows: list[Result]


_DECODER = msgspec.json.Decoder(Result)


def read_result(window: PublishedWindow, columns: list[str], version: int | None = None) -> Result:
    """Reads the result in an agent's answer; raises ControlProtocolError for anything else.

    `columns` are those of this version of the job; rows of another version may have others.
    """
    line = bytes(window.result)
    try:
        result = _DECODER.decode(line)
        line.decode()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ControlProtocolError(f"the agent sent a window that is none ({error})") from None
    names = list(result.rows[0]) if result.rows and result.version != version else columns
    if any(row.keys() != set(names) for row in result.rows):
        raise ControlProtocolError("the agent sent a window whose rows have other columns than its job")
    msgspec.structs.force_setattr(result, "columns", names)
    msgspec.structs.force_setattr(result, "pane", window.pane)
    msgspec.structs.force_setattr(result, "json", line)
    return result


def read_answer(answer: AskAnswer) -> LastWindows:
    """Reads the last windows in an agent's answer; raises ControlProtocolError for anything else."""
    windows = [read_result(window, answer.columns) for window in answer.windows]
    return LastWindows(answer.app, answer.query, answer.columns, windows)
