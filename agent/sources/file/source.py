"""The source `file`: the files that match a stream's patterns."""

from __future__ import annotations

import glob
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec

from agent.sources.blocks import Block
from agent.sources.errors import SourceError
from agent.sources.file.backlog import BoundedReader
from agent.sources.file.files import SourceFile
from agent.sources.file.finding import FoundFile, find_files
from agent.sources.file.followed_file import ReadUpTo
from agent.sources.file.tail import TailReader
from agent.sources.options import PathText
from agent.sources.reader import F, ReadFrom, Recognise, StreamReader


class FileOptions(msgspec.Struct, forbid_unknown_fields=True):
    """Keys of a stream that is read from files."""

    paths: Annotated[
        list[PathText],
        msgspec.Meta(min_length=1, max_length=1024),
        msgspec.Meta(description="globs of the stream's files (`**` for any depth), at most 1,024"),
    ]


@dataclass(frozen=True, slots=True)
class FileSource:
    """Files whose names match `paths`, which are absolute globs. See `EventSource`."""

    paths: tuple[str, ...]

    @property
    def locations(self) -> tuple[str, ...]:
        return self.paths

    def open(self, recognise: Recognise[F], *, bounded: bool, read_from: ReadFrom) -> StreamReader[F]:
        return BoundedReader(self.paths, recognise) if bounded else self.tail(recognise, read_from)

    def tail(self, recognise: Recognise[F], read_from: ReadFrom, known: Iterable[ReadUpTo] = ()) -> TailReader[F]:
        """Follows the files; those that are known are read on from where their last reading ended."""
        return TailReader(self.paths, recognise, read_from=read_from, known=known)

    def heads(self, count: int, bytes_max: int) -> Iterator[tuple[str, bytes]]:
        for file in self._latest()[:count]:
            try:
                yield file.path, SourceFile(file.path).head(bytes_max)
            except SourceError:
                continue

    def tails(self, count: int, bytes_max: int) -> Iterator[FileEnd]:
        """The last lines of the plain files that changed last; of those that cannot be read, and of compressed ones,
        none. Blocks."""
        for found in islice((one for one in self._latest() if one.status.st_size), count):
            try:
                file = SourceFile(found.path)
                if file.is_plain():
                    yield FileEnd(found.path, file.head(), file.end(bytes_max), found.status.st_mtime)
            except SourceError:
                continue

    def _latest(self) -> list[FoundFile]:
        """All files, those that changed last first."""
        return sorted(find_files(self.paths).files.values(), key=lambda file: file.status.st_mtime_ns, reverse=True)


class FileEnd(NamedTuple):
    """The end of a file: its first lines, whole lines that are its last, and when it was written last (epoch s)."""

    path: str
    head: bytes
    end: Block
    written_s: float


def build_file_source(options: FileOptions, base: Path) -> FileSource:
    """Relative patterns start at the folder `base`, whose own name is no pattern."""
    return FileSource(
        tuple(
            pattern if Path(pattern).is_absolute() else f"{glob.escape(str(base))}/{pattern}"
            for pattern in options.paths
        )
    )
