"""Blocks of lines that are too late for all jobs, none of which waits for them, are not decoded, but counted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent.configuration.config import StreamConfig
from agent.feeding.reading import LINES_MIN, FeedReader, ReadBatch
from agent.parsing import Abandoned, SourceColumn
from agent.runtime.ingest.feed import Feed
from agent.sources.file.source import FileSource

START_MS = 1_700_000_000_000
LINES = 100
NUMBER = (SourceColumn("number", ("number",), "number"),)


def read(path: Path, lines: list[str], abandoned_ms: int | None) -> ReadBatch:
    path.write_text("".join(f"{line}\n" for line in lines))
    feed = Feed("web", None, "beginning", False, NUMBER)
    reader = FeedReader(feed, StreamConfig("web", FileSource((str(path),)), "auto", None, "beginning"))
    try:
        return reader.read(NUMBER, 0.0, START_MS + 60_000, lambda: abandoned_ms)
    finally:
        reader.close()


def line(number: int) -> str:
    return json.dumps({"time": START_MS + number, "number": number})


EVERY = [line(number) for number in range(LINES)]


@pytest.mark.parametrize("abandoned_ms", [START_MS + LINES - 1, START_MS + LINES])
def test_what_is_too_late_is_counted_and_moves_the_watermark(tmp_path: Path, abandoned_ms: int) -> None:
    (block,) = read(tmp_path / "web.log", EVERY, abandoned_ms).blocks
    assert block.parsed.frames == ()
    assert block.parsed.malformed == 0
    assert block.parsed.abandoned == Abandoned(LINES, START_MS + LINES - 1)
    assert block.parsed.watermark_ms == START_MS + LINES - 1
    assert block.read_to is not None, "it is behind"


@pytest.mark.parametrize("abandoned_ms", [None, START_MS, START_MS + LINES - 2])
def test_a_block_with_anything_that_is_in_time_is_decoded(tmp_path: Path, abandoned_ms: int | None) -> None:
    (block,) = read(tmp_path / "web.log", EVERY, abandoned_ms).blocks
    assert block.parsed.abandoned is None
    assert sum(frame.height for frame in block.parsed.frames) == LINES


@pytest.mark.parametrize("place", [0, LINES - 1])
def test_lines_that_tell_no_time_leave_nothing_undecoded(tmp_path: Path, place: int) -> None:
    lines = [*EVERY]
    lines[place] = "{ no event"
    (block,) = read(tmp_path / "web.log", lines, START_MS + 10 * LINES).blocks
    assert (block.parsed.abandoned, block.parsed.malformed) == (None, 1)


def test_a_block_of_few_lines_is_decoded(tmp_path: Path) -> None:
    (block,) = read(tmp_path / "web.log", EVERY[: LINES_MIN - 1], START_MS + LINES).blocks
    assert block.parsed.abandoned is None
