"""A client that sends events cuts them into batches, sends again what is not safe, and says how far it has come."""

from __future__ import annotations

import io
import os

import polars as pl
import pytest

from agent.control.messages import EventsSent
from elf.client.emission import BYTES_MAX, LINES_MAX, ROWS_MAX, EventSender
from elf.client.errors import AgentUnreachableError, ClientError, QueryRefusedError
from elf.commands.emit.event_files import ARROW, beginning, lines_of, table_of
from elf.errors import UsageError


def emission(patience_s: float = 60.0) -> EventSender:
    return EventSender("top-words", "Word", "", "ab" * 16, patience_s)


def test_batches_are_bounded_and_number_their_events() -> None:
    rows = [{"word": f"w{number}"} for number in range(LINES_MAX + 5)]
    batches = [request.batch for request in emission().requests(rows)]
    assert [(one.first, one.data.count(b"\n") + 1) for one in batches] == [(0, LINES_MAX), (LINES_MAX, 5)]
    long = [b'"' + b"x" * (BYTES_MAX // 3) + b'"'] * 7
    batches = [request.batch for request in emission().requests(long)]
    assert [one.first for one in batches] == [0, 2, 4, 6]
    assert all(len(one.data) <= BYTES_MAX for one in batches)


def test_what_has_come_is_sent_at_a_pause_and_lines_keep_their_numbers() -> None:
    rows = [b"{}", b"", None, None, b'{"n": 1}', None]
    batches = [(one.batch.first, one.batch.data) for one in emission().requests(rows)]
    assert batches == [(0, b"{}\n"), (2, b'{"n": 1}')]


def test_where_there_is_nothing_to_send_the_job_and_the_type_are_asked_for_all_the_same() -> None:
    for nothing in ([], [None], pl.DataFrame({"word": []})):
        (request,) = emission().requests(nothing)
        assert (request.app, request.batch.type, request.batch.data) == ("top-words", "Word", b"")


def test_a_table_goes_as_columns() -> None:
    frame = pl.DataFrame({"word": ["a"] * (ROWS_MAX + 1), "n": pl.Series([1] * (ROWS_MAX + 1), dtype=pl.UInt8)})
    batches = [request.batch for request in emission().requests(frame)]
    assert [(one.first, one.columns) for one in batches] == [
        (first, [("word", "string"), ("n", "integer")]) for first in (0, ROWS_MAX)
    ]
    with pytest.raises(UsageError, match="the column words is of type List"):
        list(emission().requests(pl.DataFrame({"words": [["a"]]})))


def test_a_batch_is_sent_again_until_it_is_safe() -> None:
    sent = emission()
    assert sent.pause_after(EventsSent(10), 0.0) is None
    pauses = [sent.pause_after(EventsSent(0, "no room"), now) for now in (1.0, 1.1, 2.0)]
    assert pauses == sorted(pauses)
    assert sent.pause_after(AgentUnreachableError("gone"), 3.0) is not None
    assert sent.pause_after(EventsSent(5), 4.0) is None
    assert sent.rows == 15


def test_an_error_says_how_much_is_safe() -> None:
    sent = emission(patience_s=5.0)
    sent.pause_after(EventsSent(1000), 0.0)
    with pytest.raises(
        QueryRefusedError, match="line 1003: no JSON; the 1,000 events before this batch are in the job"
    ):
        sent.pause_after(QueryRefusedError("line 1003: no JSON"), 1.0)
    assert sent.pause_after(EventsSent(0, "the job has no room"), 2.0) is not None
    with pytest.raises(ClientError, match="top-words: the job has no room; the 1,000 events"):
        sent.pause_after(EventsSent(0, "the job has no room"), 7.5)


def test_an_event_without_json_and_one_too_long_are_refused() -> None:
    with pytest.raises(UsageError, match="line 2: no event"):
        list(emission().requests([{"n": 1}, {"n": object()}]))
    with pytest.raises(UsageError, match=f"line 1: an event of {BYTES_MAX + 2:,} bytes"):
        list(emission().requests([b'"' + b"x" * BYTES_MAX + b'"']))


def test_lines_of_a_pipe_come_while_it_is_open() -> None:
    read, write = os.pipe()
    with os.fdopen(read, "rb") as data, os.fdopen(write, "wb", buffering=0) as into:
        into.write(b'{"n": 1}\n{"n"')
        lines = lines_of(data, beginning(data))
        assert [next(lines), next(lines)] == [b'{"n": 1}', None]
        into.write(b": 2}\nlast")
        assert next(lines) == b'{"n": 2}'
        into.close()
        assert [line for line in lines if line is not None] == [b"last"]


@pytest.mark.parametrize("kind", ["file", "stream"])
def test_arrow_is_known_by_its_first_bytes(kind: str) -> None:
    frame, data = pl.DataFrame({"word": ["a", "b"]}), io.BytesIO()
    (frame.write_ipc if kind == "file" else frame.write_ipc_stream)(data)
    whole = io.BufferedReader(io.BytesIO(data.getvalue()))  # type: ignore[arg-type]
    head = beginning(whole)
    assert head.startswith(ARROW)
    assert table_of(whole, head).equals(frame)
    with pytest.raises(UsageError, match="no whole table of Arrow"):
        table_of(io.BytesIO(), data.getvalue()[:60])
