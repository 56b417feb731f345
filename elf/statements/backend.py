"""The interface of backends, and the dispatch of statements to them."""

from __future__ import annotations

from typing import Protocol

from elf.output.listing import Listing, print_listing
from elf.output.view import View, ViewLimits
from elf.statements.statements import (
    DescribeStatement,
    ExplainStatement,
    LatencyStatement,
    SelectStatement,
    ShowStatement,
    read_statement,
)


class Backend(Protocol):
    """Answers statements; every call may raise ElfError, or UsageError where the statement is at fault."""

    def select(self, text: str, view: View, limits: ViewLimits) -> int:
        """Runs a query and shows its results; returns the exit code for a command."""

    def explain(self, text: str, output: str) -> None:
        """Prints the plan of a query."""

    def analyze(self, text: str, output: str, deadline: float) -> None:
        """Runs a query, a live one for one window, and prints its plan with measurements."""

    def latency(self, text: str, output: str) -> None:
        """Prints how soon the results of a query come."""

    def streams(self) -> Listing: ...

    def jobs(self) -> Listing: ...

    def elements(self, app: str) -> Listing:
        """The processing elements of a job, or of all where none is named."""

    def describe(self, stream: str) -> Listing: ...
    def columns(self, stream: str) -> list[str]: ...

    def follow(self, app: str, view: View) -> int:
        """Shows the windows of a running job; returns the exit code for a command."""

    def stop(self, app: str) -> None:
        """Stops a job."""


def run_statement(text: str, backend: Backend, view: View, limits: ViewLimits) -> int:
    """Lets a backend answer one statement; returns the exit code for a command."""
    match read_statement(text):
        case SelectStatement(text=query_text):
            return backend.select(query_text, view, limits)
        case ExplainStatement(text=query_text, analyze=True):
            backend.analyze(query_text, "table" if view.output == "plot" else view.output, limits.deadline)
        case ExplainStatement(text=query_text):
            backend.explain(query_text, "table" if view.output == "plot" else view.output)
        case LatencyStatement(text=query_text):
            backend.latency(query_text, "table" if view.output == "plot" else view.output)
        case DescribeStatement(stream=stream):
            print_listing(backend.describe(stream), view.output)
        case ShowStatement(what="STREAMS"):
            print_listing(backend.streams(), view.output)
        case ShowStatement(what="JOBS"):
            print_listing(backend.jobs(), view.output)
        case ShowStatement(what="ELEMENTS", app=app):
            print_listing(backend.elements(app), view.output)
        case ShowStatement():
            print_listing(functions(), view.output)
    return 0


def functions() -> Listing:
    """The functions of ELF QL."""
    import query  # the whole of ELF QL, which asking does not need

    rows = [[name, *about] for name, about in query.signatures().items()]
    return Listing(["FUNCTION", "WRITTEN", "GIVES"], rows, "there are no functions")
