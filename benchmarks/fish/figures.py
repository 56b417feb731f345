"""Figures of this benchmark, and how much of each is measured."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from benchmarks.overlay.pool import Figure
from benchmarks.report import Comparison

from . import agents_in_earnest, changes, full_load, in_flight, parameters, plain_and_keyed, routing, speeds
from .lines import NAME
from .streams import EXPONENTS, Stream, real_streams, zipf

SOME_EXPONENTS = (1.0, 1.4, 2.0)
WORDS = "retail words"
LONG = "zipf 1.0 of 50 M rows"
ROUTED, EARNEST, PLAIN = "routing", "agents", "plain-and-keyed"
TIMED = (ROUTED, EARNEST, PLAIN)
"""Kinds of the figures that have the processors for themselves."""
USERS = "wiki users"
TIMES_OVER = 10
"""Times that agents in earnest get the stream of users."""
PLAIN_AGENTS, PLAIN_EVENTS = 4, 2_000_000
HEAVY = ("flight", "sizes", "load", "constants")
"""Kinds of figures that take long, the longest last."""
ROUNDS = 3
"""Of timing the routing of rows, of which the median counts."""


@dataclass(frozen=True, slots=True)
class Extent:
    """How much is measured: rows of a Zipf stream, and its runs; `few` are those of figures with many settings."""

    rows: int
    runs: int
    few: int
    sizes: tuple[int, ...]
    rows_routed: int
    rows_long: int


WHOLE = Extent(5_000_000, 10, 3, (16, 32, 64), 1_000_000, 50_000_000)
BRIEF = Extent(200_000, 1, 1, (16,), 100_000, 0)
QUICK_NAMES = (
    "routing-zipf-1.4", "load-zipf-1.0", "load-zipf-1.4", "load-zipf-2.0", "load-retail-stock-codes", "load-wiki-users",
    "sizes-zipf-1.4", "flight-wiki-users", "constants-zipf-1.4", "speeds-zipf-1.4",
    "changes-zipf-1.0",
)  # fmt: skip
"""Figures that fit in a minute."""


def _figure(kind: str, measure: Callable[..., list[Comparison]], stream: Stream, *arguments: object) -> Figure:
    name = f"{kind}-{stream.name.replace(' ', '-')}"
    return Figure(name, partial(measure, stream, *arguments), HEAVY.index(kind) if kind in HEAVY else 0, NAME)


def figures(extent: Extent) -> tuple[Figure, ...]:
    """All figures of the simulation; real streams where their logs are there."""
    real = list(real_streams())
    every = [zipf(exponent, extent.rows) for exponent in EXPONENTS]
    some = [zipf(exponent, extent.rows) for exponent in SOME_EXPONENTS]
    words = [stream for stream in real if stream.name == WORDS]
    return (
        *(_figure(ROUTED, routing.run, stream, extent.rows_routed, ROUNDS) for stream in (*some[1:2], *words)),
        *(_figure("load", full_load.whole, stream, extent.runs) for stream in (*every, *real)),
        *(_figure("sizes", full_load.sizes, stream, extent.sizes, extent.few) for stream in (*every, *real)),
        *(_figure("flight", in_flight.run, stream) for stream in (*every, *real)),
        *(_figure("constants", parameters.run, stream, extent.few) for stream in some),
        *(_figure("speeds", speeds.run, stream, extent.few) for stream in (*some, *words)),
        *(_figure("changes", changes.run, stream, extent.few) for stream in (*some, *words)),
        _figure("long", full_load.long_run, replace(zipf(1.0, extent.rows_long), name=LONG)),
    )


def earnest() -> Iterator[Figure]:
    """Yields the figures of agents in earnest, which take minutes each."""
    for stream in real_streams():
        if stream.name == USERS:
            for agents, aims in ((16, False), (32, True)):
                measure = partial(agents_in_earnest.run, stream, agents, TIMES_OVER, aims)
                yield Figure(f"{EARNEST}-{agents}", measure, 0, NAME)
    yield Figure(PLAIN, partial(plain_and_keyed.run, PLAIN_AGENTS, PLAIN_EVENTS), 0, NAME)


FULL = (*figures(WHOLE), *earnest())
QUICK = tuple(figure for figure in figures(BRIEF) if figure.name in QUICK_NAMES)
