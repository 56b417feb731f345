"""Loads existing logs in bulk: Spark's tasks make segments of them, which are committed at once."""

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
from elf.batch.table.loading import LOADED_COLUMNS, FileSplit, SegmentLoader
from elf.batch.table.stores import ArchiveStore, commit, find_store
from elf.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPLIT_BYTES = 64 << 20
TASK_BYTES_MIN = 4 << 20
COMPRESSION = 8
"""Assumed ratio of a compressed file's content to its size."""
_HEAD_BYTES = 1 << 10


@dataclass(frozen=True, slots=True)
class BulkLoad:
    """Files to load, and the stream and agent to load them as."""

    uri: str
    stream: str
    files: Sequence[str]
    agent: str
    source_format: str = "auto"
    time_field: str | None = None


@dataclass(slots=True)
class BulkLoadReport:
    """Result of a load. `present`: number of files all of whose lines were there already; `faults`: the files that
    could be read only in part, and why.
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


def ingest(spark: SparkSession, load: BulkLoad) -> BulkLoadReport:
    """Loads files with one commit at the end; lines that are in the archive already are not loaded again.

    Raises UsageError for files that cannot be loaded, and ElfError for an archive that cannot be written.
    """
    files = [_described(path, load) for path in paths(load.files)]
    store = find_store(load.uri, load.agent, spark)
    files = [_as_it_was_loaded(file, store, load.stream) for file in files]
    loaded = BulkLoadReport(len(files))
    splits = [split for file in files for split in _splits(file, store, load)]
    if splits:
        written_ms = time.time_ns() // 1_000_000
        _run(spark, store, _tasks(splits, spark.sparkContext.defaultParallelism), written_ms, loaded)
        if loaded.segments:
            commit(store, written_ms, add=loaded.segments)
    new = {number for segment in loaded.segments for number, _, _ in segment.origins}
    loaded.present = sum(file.format.header is not None and file.file_id not in new for file in files)
    return loaded


def paths(patterns: Sequence[str]) -> list[str]:
    """The files that paths and patterns name, each once. Raises UsageError for a pattern that matches none."""
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
    """Id of a file that may grow: a hash of its path and its first KiB."""
    digest = hashlib.blake2b(path.encode("utf-8", "surrogateescape") + b"\0" + head[:_HEAD_BYTES], digest_size=8)
    return int.from_bytes(digest.digest(), "big")


def covered_to(store: ArchiveStore, stream: str, number: int) -> int:
    """Offset up to which a file's lines are in the store without gaps."""
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


def _described(path: str, load: BulkLoad) -> _LogFile:
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


def _as_it_was_loaded(file: _LogFile, store: ArchiveStore, stream: str) -> _LogFile:
    """The file, with the id under which it was loaded while it was shorter than the bytes that make up the id."""
    for segment in store.state.segments.values():
        for number, first, end in segment.origins if segment.stream == stream else ():
            is_whole = first == 0 and end < min(_HEAD_BYTES, len(file.head))
            if is_whole and number == file_id(file.path, file.head[:end]):
                return replace(file, file_id=number)
    return file


def _splits(file: _LogFile, store: ArchiveStore, load: BulkLoad) -> Iterator[FileSplit]:
    """Yields splits of the part of a file that is not in the store yet, for tasks to read in parallel."""
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
        yield FileSplit(origin, covered, None, False, file.modified_ms)
        return
    cuts = [covered, *range((covered // SPLIT_BYTES + 1) * SPLIT_BYTES, file.size_bytes, SPLIT_BYTES)]
    for begin, end in zip(cuts, [*cuts[1:], None], strict=True):
        yield FileSplit(origin, begin, end, True, file.modified_ms)


def _ends_line(path: str, offset: int) -> bool:
    with Path(path).open("rb") as file:
        file.seek(offset - 1)
        return file.read(1) == b"\n"


def _tasks(splits: Sequence[FileSplit], parallelism: int) -> list[list[FileSplit]]:
    """Groups splits into tasks: small files share one."""
    sizes = [_bytes_of(split) for split in splits]
    room = min(SPLIT_BYTES, max(TASK_BYTES_MIN, sum(sizes) // parallelism))
    tasks: list[list[FileSplit]] = []
    held = room
    for split, size in zip(splits, sizes, strict=True):
        if held + size > room:
            tasks.append([])
            held = 0
        tasks[-1].append(split)
        held += size
    return tasks


def _bytes_of(split: FileSplit) -> int:
    size = Path(split.origin.path).stat().st_size
    if split.is_plain:
        return (size if split.end is None else split.end) - split.begin
    return size * COMPRESSION


def _run(
    spark: SparkSession, store: ArchiveStore, tasks: list[list[FileSplit]], written_ms: int, loaded: BulkLoadReport
) -> None:
    """Lets Spark write the segments. For a file system that only Spark can reach, their bytes pass through this
    process.
    """
    from pyspark import StorageLevel

    path = local_path(store.directory.uri)
    loading = SegmentLoader(tasks, None if path is None else str(path), written_ms)
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
