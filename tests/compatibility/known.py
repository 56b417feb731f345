"""Known values of every format that outlives a release: written by one release, read by the next.

`make_samples.py` runs this with the code of a release, so that its files are what that release writes.
"""

from __future__ import annotations

import typing
from collections.abc import Iterator
from typing import Any

import msgspec
import polars as pl

from agent import Submit
from agent.control.messages import Answer, Request
from agent.feeding.reading_ledger import FeedPosition, ReadTo
from agent.runtime.durable.records import Chain, Place, SealedAt, SealedRun
from agent.runtime.messages.job_records import JobRecord
from agent.runtime.model.epoch import JobTerm
from agent.runtime.model.panes import SELF, Counts, Run
from agent.runtime.model.state_encoding import StateEncoding
from agent.sources.file.followed_file import ReadUpTo
from cbt import Aggregate, CompressedBufferTree, Key, encode_frame
from cbt.aggregates.functions import FUNCTIONS
from overlay import Id, Peer
from overlay.wire.messages import OverlayMessage

QUERY = (
    "SELECT path, COUNT(*) AS hits, APPROX_PERCENTILE(bytes, 0.9) AS p90 FROM web WHERE status >= 500 GROUP BY path"
    " HAVING hits > 1 ORDER BY hits DESC LIMIT 5 WINDOWING 10 SECONDS EVERY 5 SECONDS"
)
JOB = JobTerm(7, 1_700_000_000_000)
EPOCHS = {Id(5): 3, Id(2**128 - 1): 12}
LEAD_MS = 1_700_000_000_000.0
PARAMETERS: dict[str, tuple[Any, ...]] = {
    "collect": (3,), "collect_set": (3,), "histogram": (10,), "approx_percentile": (0.5,), "approx_top_k": (2,)
}  # fmt: skip
NEWER = {"of_program"}
"""Aggregate functions that the release before does not have."""
COLUMNS = {"any": "v", "number": "x", "integer": "n", "string": "s", "boolean": "b"}
ROWS = pl.DataFrame(
    {
        "pane": [n % 3 for n in range(40)],
        "time": [*range(40)],
        "k": [f"/{n % 5}" for n in range(40)],
        "v": [f"v{n % 7}" for n in range(40)],
        "x": [n / 4 for n in range(40)],
        "n": [n * n for n in range(40)],
        "s": [f"s{n % 9}" for n in range(40)],
        "b": [n % 2 == 0 for n in range(40)],
    }
)


def tree() -> CompressedBufferTree:
    """A tree with every aggregate function of the release before, without its rows."""
    aggregates = [
        Aggregate(name, name, COLUMNS[function.types[0]], function.types[0], PARAMETERS.get(name, ()))
        for name, function in FUNCTIONS.items()
        if name not in NEWER
    ]
    return CompressedBufferTree([Key("k", "string")], aggregates)


def place() -> tuple[ReadUpTo, ...]:
    return (ReadUpTo("/var/log/access.log", (2049, 7), 4, "00ff", 4096, 5),)


def positions() -> list[FeedPosition]:
    return [FeedPosition("web", place(), 1_700_000_000_123, {JOB: 1_700_000_000_000}, True)]


def sealed_run() -> SealedRun:
    state = pl.DataFrame({"pane": [10], "hits": [3]})
    run = Run(0, 10, SELF, state, {10: Counts(events=3)}, encoding=StateEncoding(state, encode_frame(state)))
    at = SealedAt({("web", None): Place(1, ReadTo(place()))}, ((0, 10),))
    return SealedRun(Chain(JOB, 1), b"function", run, at, 3, 0)


# Messages.


def overlay_messages() -> Iterator[Any]:
    return map(example, typing.get_args(OverlayMessage))


def job_messages() -> Iterator[Any]:
    """Those between agents; those on the disk alone are `job_records`."""
    records = typing.get_args(JobRecord)
    kinds = [kind for kind in Submit.__mro__[1].__subclasses__() if kind not in records]
    return map(example, sorted(kinds, key=lambda kind: str(kind.__name__)))


def job_records() -> Iterator[Any]:
    return map(example, typing.get_args(JobRecord))


def requests() -> Iterator[Any]:
    return map(example, typing.get_args(Request))


def answers() -> Iterator[Any]:
    return map(example, typing.get_args(Answer))


def example(kind: type) -> Any:
    """A value of a message, with something in each of its fields."""
    return _value(msgspec.inspect.type_info(kind))


def _value(info: msgspec.inspect.Type) -> Any:
    match info:
        case msgspec.inspect.StructType() | msgspec.inspect.NamedTupleType():
            return info.cls(**{field.name: _value(field.type) for field in info.fields})
        case msgspec.inspect.UnionType():
            return _value(next(one for one in info.types if not isinstance(one, msgspec.inspect.NoneType)))
        case msgspec.inspect.CustomType(cls=cls):
            return Peer(Id(5), "127.0.0.1:7700") if cls is Peer else Id(6)
        case msgspec.inspect.VarTupleType() | msgspec.inspect.ListType():
            values = [_value(info.item_type)] * max(info.min_length or 0, 1)
            return values if isinstance(info, msgspec.inspect.ListType) else tuple(values)
        case msgspec.inspect.TupleType():
            return tuple(map(_value, info.item_types))
        case msgspec.inspect.DictType():
            return {_value(info.key_type): _value(info.value_type)}
        case msgspec.inspect.LiteralType():
            return info.values[0]
        case msgspec.inspect.BytesType():
            return b"\1" * max(info.min_length or 0, 1)
        case msgspec.inspect.StrType():
            return "0" * 32 if info.pattern else "a" * max(info.min_length or 0, 1)
        case msgspec.inspect.IntType():
            return max(info.ge or 0, 1)
        case msgspec.inspect.FloatType():
            return 1.5
        case msgspec.inspect.BoolType():
            return True
        case msgspec.inspect.RawType():
            return msgspec.Raw(b'{"rows":[]}')
        case msgspec.inspect.AnyType():
            return 1
    raise AssertionError(info)
