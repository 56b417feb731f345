"""Structured logs: one JSON object a line on standard error, for journals and programs.

    {"time":"2026-01-02T03:04:05.678Z","level":"info","event":"ready","listen":"127.0.0.1:7705"}

Records of `logging` are written like that, and so are warnings and uncaught exceptions in threads and finalisers.
"""

from __future__ import annotations

import logging
import sys
import threading
import traceback
from datetime import UTC, datetime
from types import TracebackType
from typing import Any

import msgspec

AGENT_LOG = logging.getLogger("elf.agent")
TEXT_CHARACTERS_MAX = 16_384
"""Upper bound on one value; a longer traceback keeps its end, which says what happened."""
_INTEGER_MAX = 1 << 63
_OWN_KEYS = ("time", "level", "event")


def info(event: str, **fields: Any) -> None:
    """Logs an event; `fields` are plain values."""
    AGENT_LOG.info(event, extra={"fields": fields})


def warn(event: str, **fields: Any) -> None:
    AGENT_LOG.warning(event, extra={"fields": fields})


def debug(event: str, **fields: Any) -> None:
    AGENT_LOG.debug(event, extra={"fields": fields})


def failed(event: str, error: BaseException, **fields: Any) -> None:
    """Logs an unexpected exception with its traceback."""
    AGENT_LOG.error(event, exc_info=error, extra={"fields": fields})


def start_logging(level: str) -> None:
    """Sends records from `level` (debug, info, warning, error) on to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    set_level(level)
    # That nobody can read the log any more is no reason to stop, or to write about it.
    logging.raiseExceptions = False
    logging.captureWarnings(True)
    sys.excepthook = _log_uncaught
    sys.unraisablehook = lambda unraisable: _log_stray("unraisable", unraisable.exc_value)
    threading.excepthook = lambda arguments: _log_stray("thread failed", arguments.exc_value)


def set_level(level: str) -> None:
    """Sends records from another level on."""
    logging.getLogger().setLevel(level.upper())


class JsonFormatter(logging.Formatter):
    """A record as one line of JSON, whatever is in it."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC)
            .isoformat(timespec="milliseconds")
            .replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "event": _cut(getattr(record, "event", None) or record.getMessage()),
        }
        if hasattr(record, "event"):
            line["message"] = _cut(record.getMessage())
        if record.name != AGENT_LOG.name:
            line["logger"] = record.name
        for key, value in getattr(record, "fields", {}).items():
            line[f"{key}_" if key in _OWN_KEYS else key] = _plain(value)
        if record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            line["error"] = _cut(summary(error))
            line["traceback"] = printable("".join(traceback.format_exception(error))[-TEXT_CHARACTERS_MAX:])
        return msgspec.json.encode(line).decode()


def summary(error: BaseException) -> str:
    """The kind and text of an exception in one line; of a group, those of all that are in it."""
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(map(summary, error.exceptions))
    return f"{type(error).__name__}: {error}"


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | float):
        return value
    if isinstance(value, int):
        return value if -_INTEGER_MAX < value < _INTEGER_MAX else str(value)
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    return _cut(str(value))


def _cut(text: str) -> str:
    return printable(text[:TEXT_CHARACTERS_MAX])


def printable(text: str) -> str:
    """Replaces lone surrogates, which file names may hold and JSON may not."""
    return text.encode(errors="backslashreplace").decode()


def _log_uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    AGENT_LOG.critical("crashed", exc_info=(kind, error, trace))


def _log_stray(event: str, error: BaseException | None) -> None:
    if error is not None:
        failed(event, error)
