"""Bulk loads: existing logs as rows of the table, computed by Spark's tasks and committed at once."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from glob import glob, has_magic
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from agent.archive.format.rows import FileOrigin
from agent.archive.format.segments import Segment
from agent.parsing import Format, sniff
from agent.sources import SourceError, SourceFile
from agent.sources.file.compression import GZIP_MAGIC, ZSTD_MAGIC, ZSTD_SKIPPABLE_MAGICS
from elf.batch.table.files import local_path
from elf.batch.table.loading import LOADED_COLUMNS, Loading, Piece
from elf.batch.table.stores import Store, commit, find_store
from elf.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PIECE_BYTES = 64 << 20
TASK_BYTES_MIN = 4 << 20
COMPRESSION = 8
"""About how many times as large as a compressed file its content is."""
_HEAD_BYTES = 1 << 10


@dataclass(frozen=True, slots=True)
class Load:
    """Which files are loaded, as what."""

    uri: str
    stream: str
    files: Sequence[str]
    agent: str
    source_format: str = "auto"
    time_field: str | None = None


@dataclass(slots=True)
class Loaded:
    """What has come of it. `present`: files without a line that was not there already; `faults`: files that could be
    read only in part, and why.
    """

    files: int = 0
    present: int = 0
    segments: list[Segment] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _LogFile:
    path: str
    size_bytes: int
    modified_ms: int
    format: Format
    head: bytes
    file_id: int
    is_compressed: bool


def ingest(spark: SparkSession, load: Load) -> Loaded:
    """Loads files, with one commit at the end: before, nothing of it is there. What is there already stays as it is.

    Raises UsageError for files that cannot be loaded, and ElfError for an archive that cannot be written.
    """
    files = [_described(path, load) for path in paths(load.files)]
    store = find_store(load.uri, load.agent, spark)
    files = [_as_it_was_loaded(file, store, load.stream) for file in files]
    loaded = Loaded(len(files))
    pieces = [piece for file in files for piece in _pieces(file, store, load)]
    if pieces:
        written_ms = time.time_ns() // 1_000_000
        _run(spark, store, _tasks(pieces, spark.sparkContext.defaultParallelism), written_ms, loaded)
        if loaded.segments:
            commit(store, written_ms, add=loaded.segments)
    new = {number for segment in loaded.segments for number, _, _ in segment.origins}
    loaded.present = sum(file.format.header is not None and file.file_id not in new for file in files)
    return loaded


def paths(patterns: Sequence[str]) -> list[str]:
    """The files that paths and patterns name, each once. Raises UsageError for one that names none."""
    found: dict[str, None] = {}
    for pattern in patterns:
        path = local_path(pattern)
        if path is None:
            raise UsageError(f"{pattern}: is not on this machine: logs are loaded from paths that all workers see")
        matching = sorted(glob(str(path), recursive=True)) if has_magic(pattern) else [str(path)]  # noqa: PTH207
        if not matching:
            raise UsageError(f"{pattern}: no file is called like that")
        found.update(dict.fromkeys(name for name in matching if not (has_magic(pattern) and Path(name).is_dir())))
    return list(found)


def file_id(path: str, head: bytes) -> int:
    """A number for a file that grows: of its path and its first KiB."""
    digest = hashlib.blake2b(path.encode("utf-8", "surrogateescape") + b"\0" + head[:_HEAD_BYTES], digest_size=8)
    return int.from_bytes(digest.digest(), "big")


def covered_to(store: Store, stream: str, number: int) -> int:
    """Up to which offset, from the beginning on, a file's lines are in the store."""
    ranges = sorted(
        (first, end)
        for segment in store.state.segments.values()
        if segment.stream == stream
        for file, first, end in segment.origins
        if file == number
    )
    covered = 0
    for first, end in ranges:
        if first > covered:
            break
        covered = max(covered, end)
    return covered


def _described(path: str, load: Load) -> _LogFile:
    try:
        file = SourceFile(path)
        head = file.head()
        form = sniff(head, path, load.source_format, load.time_field)
        with Path(path).open("rb") as raw:
            first = raw.read(_HEAD_BYTES)
        status = Path(path).stat()
    except SourceError as error:
        raise UsageError(str(error)) from error
    is_compressed = first.startswith((GZIP_MAGIC, ZSTD_MAGIC, *ZSTD_SKIPPABLE_MAGICS))
    number = file_id(path, head)
    return _LogFile(path, status.st_size, status.st_mtime_ns // 1_000_000, form, head, number, is_compressed)


def _as_it_was_loaded(file: _LogFile, store: Store, stream: str) -> _LogFile:
    """The file under the number it had when it was loaded while all of it was less than what that is made of."""
    for segment in store.state.segments.values():
        for number, first, end in segment.origins if segment.stream == stream else ():
            is_whole = first == 0 and end < min(_HEAD_BYTES, len(file.head))
            if is_whole and number == file_id(file.path, file.head[:end]):
                return replace(file, file_id=number)
    return file


def _pieces(file: _LogFile, store: Store, load: Load) -> Iterator[Piece]:
    """What of a file is not in the store, in parts that tasks can read side by side."""
    if file.format.header is None:  # there is nothing in it
        return
    origin = FileOrigin(load.stream, load.agent, file.path, file.file_id, file.format)
    covered = covered_to(store, load.stream, file.file_id)
    is_plain = not file.is_compressed and not file.format.quotes_span_lines
    if not file.is_compressed and covered:
        if covered == file.size_bytes:
            return
        covered = covered if covered < file.size_bytes and _ends_line(file.path, covered) else 0
    if not is_plain:
        yield Piece(origin, covered, None, False, file.modified_ms)
        return
    cuts = [covered, *range((covered // PIECE_BYTES + 1) * PIECE_BYTES, file.size_bytes, PIECE_BYTES)]
    for begin, end in zip(cuts, [*cuts[1:], None], strict=True):
        yield Piece(origin, begin, end, True, file.modified_ms)


def _ends_line(path: str, offset: int) -> bool:
    with Path(path).open("rb") as file:
        file.seek(offset - 1)
        return file.read(1) == b"\n"


def _tasks(pieces: Sequence[Piece], parallelism: int) -> list[list[Piece]]:
    """Pieces together that make one task: small files share one."""
    sizes = [_bytes_of(piece) for piece in pieces]
    room = min(PIECE_BYTES, max(TASK_BYTES_MIN, sum(sizes) // parallelism))
    tasks: list[list[Piece]] = []
    held = room
    for piece, size in zip(pieces, sizes, strict=True):
        if held + size > room:
            tasks.append([])
            held = 0
        tasks[-1].append(piece)
        held += size
    return tasks


def _bytes_of(piece: Piece) -> int:
    size = Path(piece.origin.path).stat().st_size
    if piece.is_plain:
        return (size if piece.end is None else piece.end) - piece.begin
    return size * COMPRESSION


def _run(spark: SparkSession, store: Store, tasks: list[list[Piece]], written_ms: int, loaded: Loaded) -> None:
    """Has Spark write the segments; those of a file system that only it can reach come through this process."""
    from pyspark import StorageLevel

    path = local_path(store.directory.uri)
    loading = Loading(tasks, None if path is None else str(path), written_ms)
    frame = spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(loading, LOADED_COLUMNS)
    if path is None:
        frame = frame.persist(StorageLevel.DISK_ONLY)
        frame.count()
    for row in frame.toLocalIterator() if path is None else frame.collect():
        if row["fault"] is not None:
            loaded.faults.append(row["fault"])
            continue
        segment = msgspec.json.decode(row["segment"], type=Segment)
        if row["data"] is not None:
            store.directory.write(segment.file, bytes(row["data"]))
        loaded.segments.append(segment)
    if path is None:
        frame.unpersist()
