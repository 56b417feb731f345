"""Answers statements by asking a fleet through one agent."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from agent.control.messages import GROUPS_DEFAULT, BeyondGroups, Surveyed
from elf.client.sync_client import SyncClient
from elf.output.element_table import listed_elements
from elf.output.listing import Cell, Listing, listed_jobs
from elf.output.view import View, ViewLimits
from elf.statements.session import QuerySession, show_followed


@dataclass(frozen=True, slots=True)
class QueryOptions:
    """Options of submitted queries."""

    app: str | None = None
    once: bool = False
    detach: bool = False
    max_groups: int = GROUPS_DEFAULT
    beyond_groups: BeyondGroups = "other"


class FleetBackend:
    """Answers statements for a whole fleet; `socket` is the one given on the command line, for hints at further
    commands.

    Its streams are those of the asked agent.
    """

    def __init__(self, client: SyncClient, socket: Path | None, options: QueryOptions) -> None:
        self._client = client
        self._socket = socket
        self._options = options

    def select(self, text: str, view: View, limits: ViewLimits) -> int:
        options = self._options
        with self._client.query(
            text,
            app=options.app,
            once=options.once,
            detach=options.detach,
            max_groups=options.max_groups,
            beyond_groups=options.beyond_groups,
        ) as job:
            session = QuerySession(job, self._client.path, self._socket, detach=options.detach)
            if options.detach and limits.windows is None and limits.deadline == float("inf"):
                return session.leave()
            return session.show(view, limits)

    def explain(self, text: str, output: str) -> None:
        from elf.explain import print_explanation  # it needs all of ELF QL, which asking does not

        options = self._options
        print_explanation(
            text, once=options.once, max_groups=options.max_groups, beyond_groups=options.beyond_groups, output=output
        )

    def analyze(self, text: str, output: str, deadline: float) -> None:
        from elf.explain import check_output, explained_query, measured_window, print_explained

        check_output(output)
        options = self._options
        explained = explained_query(
            text, once=options.once, max_groups=options.max_groups, beyond_groups=options.beyond_groups
        )
        submitted = time.monotonic()
        with self._client.query(
            text, once=options.once, max_groups=options.max_groups, beyond_groups=options.beyond_groups
        ) as job:
            measurements = measured_window(job, submitted, deadline, self._client.place)
        print_explained(explained, output, measurements)

    def latency(self, text: str, output: str) -> None:
        from elf.latency_explanation import (
            print_latency_explanation,  # it needs all of ELF QL, and its model of latency
        )

        print_latency_explanation(self._client, text, output)

    def streams(self) -> Listing:
        status = self._client.status()
        rows: list[list[Cell]] = [
            [one.name, one.files, one.events, one.events_per_s, ", ".join(one.paths)] for one in status.streams
        ]
        nothing = f"{status.name} has no streams; other agents of its fleet may have some"
        return Listing(["STREAM", "FILES", "EVENTS", "EVENTS/S", "PATHS"], rows, nothing)

    def jobs(self) -> Listing:
        return listed_jobs(self._client.jobs())

    def elements(self, app: str) -> Listing:
        return listed_elements(self._client.elements(app or None))

    def describe(self, stream: str) -> Listing:
        return _surveyed_columns(self._client.survey(stream))

    def columns(self, stream: str) -> list[str]:
        """Names of the columns that the asked agent has seen in a stream."""
        return list(self._client.describe(stream).columns)

    def follow(self, app: str, view: View) -> int:
        with self._client.follow(app, reconnect=True) as job:
            return show_followed(job, view, ViewLimits(), self._socket)

    def stop(self, app: str) -> None:
        self._client.stop(app)


def _surveyed_columns(found: Surveyed) -> Listing:
    """The columns of a stream in the whole fleet, and the number of agents that have not answered."""
    rows: list[list[Cell]] = [
        [column.name, column.type, column.agents, column.example or None] for column in found.columns
    ]
    notes = [f"{found.agents} of {found.asked} agents have {found.stream}"]
    notes += [f"{found.silent} have not answered"] if found.silent else []
    notes += ["events may have other columns too; what a query does with one decides its type"] if found.open else []
    return Listing(["COLUMN", "TYPE", "AGENTS", "EXAMPLE"], rows, "no columns seen yet", "; ".join(notes))


def listed_columns(columns: dict[str, str], *, is_open: bool) -> Listing:
    """The columns of a stream, by name."""
    note = "events may have others too; what a query does with a column decides its type" if is_open else ""
    rows: list[list[Cell]] = [[name, kind] for name, kind in sorted(columns.items())]
    return Listing(["COLUMN", "TYPE"], rows, "no columns seen yet", note)
