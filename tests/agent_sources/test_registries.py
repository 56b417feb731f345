"""A new source or format is one file and one row: small ones, registered here, are configured and fed to an agent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
import polars as pl
import pytest
import trio
from agent_toml import agent_toml
from test_feeds import DAY_MS, FakeAgent, bounded, live, make_feeds, until

from agent.configuration.config import ConfigError, StreamConfig, load_config
from agent.parsing import LINE_FORMATS, TIME, Format, LineFormat, Parsed, SourceColumn
from agent.parsing.record_reader import Records, eventless
from agent.sources import Block, Origin
from agent.sources.reader import ReaderStatistics, ReadFrom, Recognise, SourceBlock, SourcePart
from agent.sources.registry import SOURCES, SourceKind

AGENT = agent_toml() + '[[streams]]\nname = "web"\n'


# A source that is sent its lines.


class InboxOptions(msgspec.Struct, forbid_unknown_fields=True):
    sender: str
    lines_max: Annotated[int, msgspec.Meta(ge=1)] = 100


class Inbox:
    """Holds lines until a reader is polled."""

    def __init__(self, sender: str) -> None:
        self.sender = sender
        self.lines: list[bytes] = []

    @property
    def locations(self) -> tuple[str, ...]:
        return (self.sender,)

    def open(self, recognise: Recognise[Any], *, bounded: bool, read_from: ReadFrom) -> InboxReader:  # noqa: ARG002
        return InboxReader(self, recognise)

    def heads(self, count: int, bytes_max: int) -> Iterator[tuple[str, bytes]]:
        yield from [(self.sender, b"".join(self.lines)[:bytes_max])][:count]


class InboxReader:
    at_end = True

    def __init__(self, inbox: Inbox, recognise: Recognise[Any]) -> None:
        self._inbox, self._recognise = inbox, recognise
        self._part = SourcePart(inbox.sender)
        self._offset = 0

    def behind(self) -> Sequence[SourcePart]:
        return []

    def poll(self, now: float) -> list[SourceBlock[Any]]:  # noqa: ARG002
        lines, self._inbox.lines = self._inbox.lines, []
        if not lines:
            return []
        data = b"".join(lines)
        block = Block(data, Origin(self._part.path, self._offset), 0)
        self._offset += len(data)
        return [SourceBlock(self._part, block, self._recognise(data, self._part.path))]

    def is_quiet(self, now: float) -> bool:  # noqa: ARG002
        return not self._inbox.lines

    def faults(self) -> list[str]:
        return []

    def statistics(self) -> ReaderStatistics:
        return ReaderStatistics(files=1, bytes_read=self._offset)

    def close(self) -> None:
        self._inbox.lines.clear()


@pytest.fixture
def _inbox(monkeypatch: pytest.MonkeyPatch) -> None:
    row = SourceKind("inbox", InboxOptions, lambda options, base: Inbox(options.sender))  # noqa: ARG005
    monkeypatch.setitem(SOURCES, row.name, row)


def configured(folder: Path, keys: str) -> StreamConfig:
    path = folder / "agent.toml"
    path.write_text(AGENT + keys)
    (stream,) = load_config(path).streams
    return stream


@pytest.mark.trio
@pytest.mark.usefixtures("_inbox")
@pytest.mark.parametrize("feed", [live(), bounded()])
async def test_a_registered_source_feeds_an_agent(tmp_path: Path, nursery: trio.Nursery, feed: Any) -> None:
    stream = configured(tmp_path, 'source = "inbox"\nsender = "10.0.0.1"\n')
    inbox = stream.source
    assert isinstance(inbox, Inbox)
    assert inbox.locations == ("10.0.0.1",)
    inbox.lines = [b'{"time": %d, "number": %d}\n' % (DAY_MS + number, number) for number in range(3)]
    agent = FakeAgent(feed)
    feeds = make_feeds(agent, stream)
    nursery.start_soon(feeds.run)
    await until(lambda: len(agent.numbers(feed.key)) == 3)
    assert agent.numbers(feed.key) == [0, 1, 2]
    assert feeds.statistics()["web"].events == 3


@pytest.mark.usefixtures("_inbox")
@pytest.mark.parametrize(
    ("keys", "fault"),
    [
        ('source = "inbox"\n', ":10: streams[0].sender: is missing"),
        ('source = "inbox"\nsender = "a"\nlines_max = 0\n', ":14: streams[0].lines_max: expected `int` >= 1"),
        ('source = "inbox"\nsender = "a"\npaths = ["a"]\n', ":14: streams[0].paths: unknown key"),
        ('source = "inbox"\nsendr = "a"\n', ":13: streams[0].sendr: unknown key (did you mean sender?)"),
        ('source = "carrier pigeon"\n', ":12: streams[0].source: 'carrier pigeon' is none of file, inbox"),
        ("source = 7\n", ":12: streams[0].source: must be text in quotes, not a whole number"),
    ],
)
def test_the_keys_of_a_stream_are_those_of_its_source(tmp_path: Path, keys: str, fault: str) -> None:
    with pytest.raises(ConfigError) as caught:
        configured(tmp_path, keys)
    assert any(line.removeprefix(str(tmp_path / "agent.toml")).startswith(fault) for line in caught.value.lines), caught


# A format of lines like `1767225600000 7`.


class PairParser:
    def __init__(self, form: Format, columns: Sequence[SourceColumn]) -> None:  # noqa: ARG002
        self._columns = columns

    def parse(self, block: Block, arrival_ms: int) -> Parsed:  # noqa: ARG002
        pairs = [line.split() for line in block.data.splitlines()]
        good = [[int(part) for part in pair] for pair in pairs if len(pair) == 2 and all(map(bytes.isdigit, pair))]
        if not good:
            return Parsed((), len(pairs))
        values = {TIME: [time for time, _ in good], **{one.name: [value for _, value in good] for one in self._columns}}
        return Parsed((pl.DataFrame(values),), len(pairs) - len(good))


class PairRecords:
    def __init__(self, form: Format) -> None:
        pass

    def read(self, block: Block, arrival_ms: int) -> Records:  # noqa: ARG002
        return eventless(block)


def pair_evidence(sample: bytes) -> tuple[int, int]:
    parsed = PairParser(Format("pairs", "time"), []).parse(Block(sample, Origin("", 0), 0), 0)
    return sum(frame.height for frame in parsed.frames), parsed.malformed


PAIRS = LineFormat(
    "pairs",
    PairParser,
    PairRecords,
    pair_evidence,
    lambda sample, file, given: Format("pairs", "time", ("time", "number")),  # noqa: ARG005
    lambda form: ({"time": "timestamp", "number": "integer"}, False),  # noqa: ARG005
    fixed_time_field="time",
)


@pytest.mark.trio
@pytest.mark.parametrize("format_key", ["", 'format = "pairs"\n'])
async def test_a_registered_format_is_recognised_and_read(
    tmp_path: Path, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch, format_key: str
) -> None:
    monkeypatch.setitem(LINE_FORMATS, PAIRS.name, PAIRS)
    (tmp_path / "a.log").write_bytes(b"".join(b"%d %d\n" % (DAY_MS + number, number) for number in range(5)) + b"no\n")
    stream = configured(tmp_path, 'paths = ["a.log"]\n' + format_key)
    agent = FakeAgent(bounded())
    nursery.start_soon(make_feeds(agent, stream).run)
    await until(lambda: bool(agent.said))
    assert agent.numbers(("web", 1)) == list(range(5))
    assert agent.malformed == 1
