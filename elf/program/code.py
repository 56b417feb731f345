"""Loads a job's file: executes it, finds its one job class, and describes that."""

from __future__ import annotations

import itertools
import linecache
import re
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from agent.programs.calls import AGGREGATES_MAX, STAGES_MAX, JobDescription
from agent.programs.element_graph import ElementGraph
from elf.elements.event import ElementError
from elf.elements.graph import element_graph, query_of
from elf.job import Job, app_name
from elf.job_aggregate import RESULT_TYPES, JobAggregate, is_rigid
from elf.job_messages import Messages

FILE = "job.py"
"""File name of a job's code in its tracebacks."""
TIMER_MIN_S = 0.25
_numbers = itertools.count(1)
STAGE_NAME = re.compile(r"[a-z][a-z0-9_-]{0,31}")
AGGREGATE_NAME = re.compile(r"[A-Z_][A-Z0-9_]{0,62}")
TYPES = ("any", "number", "integer", "string", "boolean")


class CodeError(Exception):
    """The file holds no job that can run: one line, and the traceback where its code raised an exception."""

    def __init__(self, reason: str, text: str = "") -> None:
        super().__init__(reason)
        self.text = text or reason


@dataclass(frozen=True, slots=True)
class LoadedCode:
    """A job's class and its message types."""

    kind: type[Job]
    messages: Messages


def load_code(source: bytes) -> LoadedCode:
    """Executes a job's file. Raises CodeError."""
    text = source.decode(errors="replace")
    linecache.cache[FILE] = (len(text), None, text.splitlines(keepends=True), FILE)
    module = ModuleType(f"job{next(_numbers)}")
    sys.modules[module.__name__] = module  # where dataclasses look for the names in their annotations
    try:
        exec(compile(text, FILE, "exec"), module.__dict__)
        messages = Messages(vars(module))
    except MemoryError:
        raise
    except BaseException as error:
        raise CodeError(one_line(error), trace(error)) from None
    classes = [kind for kind in vars(module).values() if _is_job(kind, module)]
    if len(classes) != 1:
        names = ", ".join(kind.__name__ for kind in classes) or "none"
        raise CodeError(f"a job's file defines one class that is an elf.Job, this one defines {names}")
    return LoadedCode(classes[0], messages)


def _is_job(kind: object, module: ModuleType) -> bool:
    return isinstance(kind, type) and issubclass(kind, Job) and kind.__module__ == module.__name__


def about(kind: type[Job]) -> JobDescription:
    """The description of a job class. Raises CodeError for invalid attributes."""
    name = kind.__name__
    elements = _elements(kind)
    fault = _fault(kind, elements is not None)
    if fault is not None:
        raise CodeError(f"{name}.{fault}")
    try:
        query = kind.query if kind.query or elements is None else query_of(name, elements)
    except ElementError as error:
        raise CodeError(str(error)) from None
    return JobDescription(
        app=app_name(kind),
        query=query,
        queries=dict(kind.queries),
        stages=dict(kind.stages),
        timer_s=None if kind.timer_s is None else float(kind.timer_s),
        reads=dict(kind.reads),
        drives=kind.drives,
        maps=_overrides(kind, "map"),
        receives=_overrides(kind, "on_recv"),
        delivers=_overrides(kind, "deliver"),
        elements=elements,
        aggregates={
            name.upper(): f"{one.gives}:rigid" if is_rigid(one) else one.gives for name, one in kind.aggregates.items()
        },
    )


def _elements(kind: type[Job]) -> ElementGraph | None:
    """The graph of a job's elements, if it has any. Raises CodeError."""
    if isinstance(kind.elements, list | tuple) and not kind.elements:
        return None
    try:
        return element_graph(kind.__name__, kind.elements, vars(sys.modules[kind.__module__]))
    except ElementError as error:
        raise CodeError(str(error)) from None


def _fault(kind: type[Job], has_elements: bool) -> str | None:
    """The first fault of a class's attributes, with the attribute's name."""
    checks: list[tuple[str, str, Callable[[Any], bool]]] = [
        ("app", "a name of at most 200 characters", lambda value: isinstance(value, str) and len(value) <= 200),
        (
            "query",
            "a query in ELF QL",
            lambda value: isinstance(value, str) and (bool(value.strip()) or (has_elements and not value)),
        ),
        ("queries", "a dict of queries by name", _is_texts),
        ("stages", f"a dict of at most {STAGES_MAX} queries by name, as in likes or top-ten", _is_stages),
        ("timer_s", f"None, or at least {TIMER_MIN_S} seconds", _is_timer),
        ("reads", f"a dict of types by column, each one of {', '.join(TYPES)}", _is_reads),
        ("drives", "True or False", lambda value: isinstance(value, bool)),
        (
            "aggregates",
            f"a dict of at most {AGGREGATES_MAX} classes that are an elf.Aggregate by name, as in TOP_SPENDERS",
            _is_aggregates,
        ),
    ]
    for name, wanted, is_right in checks:
        if not is_right(getattr(kind, name)):
            return f"{name}: is to be {wanted}"
    if (fault := next(filter(None, map(_aggregate_fault, kind.aggregates.items())), None)) is not None:
        return f"aggregates: {fault}"
    if kind.aggregates and (has_elements or kind.drives):
        return f"aggregates: are not for a job {'with elements' if has_elements else 'that drives itself'}"
    if has_elements and (kind.drives or kind.reads):
        return f"{'drives' if kind.drives else 'reads'}: is not for a job with elements"
    if _overrides(kind, "map") != bool(kind.reads):
        return "reads: names the columns that map gets: a job has both or neither"
    return None


def _is_aggregates(value: object) -> bool:
    if not isinstance(value, dict) or len(value) > AGGREGATES_MAX:
        return False
    are_named = all(isinstance(name, str) and AGGREGATE_NAME.fullmatch(name.upper()) for name in value)
    return are_named and all(isinstance(one, type) and issubclass(one, JobAggregate) for one in value.values())


def _aggregate_fault(named: tuple[str, type[JobAggregate]]) -> str | None:
    """The fault of one aggregate's class, if there is one that shows without a value."""
    name, kind = named
    if kind.gives not in RESULT_TYPES:
        return f"{name}: gives is one of {', '.join(RESULT_TYPES)}"
    if kind.lift is JobAggregate.lift:
        return f"{name} has no lift: it makes a state of an event's values"
    return None


def _is_texts(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(k, str) and k and isinstance(v, str) for k, v in value.items())


def _is_stages(value: object) -> bool:
    named = isinstance(value, dict) and len(value) <= STAGES_MAX and _is_texts(value)
    return named and isinstance(value, dict) and all(STAGE_NAME.fullmatch(name) for name in value)


def _is_timer(value: object) -> bool:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return value is None
    return TIMER_MIN_S <= value <= 86_400


def _is_reads(value: object) -> bool:
    return _is_texts(value) and isinstance(value, dict) and all(kind in TYPES for kind in value.values())


def _overrides(kind: type[Job], callback: str) -> bool:
    return getattr(kind, callback) is not getattr(Job, callback)


def one_line(error: BaseException) -> str:
    """An exception as one line that says what and where in the job's file.

    >>> one_line(KeyError("a"))
    "KeyError: 'a'"
    """
    lines = shown(error).splitlines()
    what = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
    places = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == FILE]
    if isinstance(error, SyntaxError) and error.lineno is not None:
        what, places = f"SyntaxError: {error.msg}", [error.lineno]
    return f"{what[:500]} ({FILE}:{places[-1]})" if places else what[:500]


def shown(value: object) -> str:
    """A value as text, where its own code may fail: it says so then.

    >>> shown(5), shown(10**5000)
    ('5', '<int that cannot be shown>')
    """
    try:
        return str(value)
    except Exception:
        return f"<{type(value).__name__} that cannot be shown>"


def trace(error: BaseException) -> str:
    """The traceback, without the frames of the process around the job."""
    summary = traceback.TracebackException.from_exception(error, limit=-50)
    own = [frame for frame in summary.stack if frame.filename == FILE]
    if own:
        summary.stack = traceback.StackSummary.from_list(list(summary.stack)[list(summary.stack).index(own[0]) :])
    return "".join(summary.format())
