"""Opens agents' stores, at any URI, as their logs describe them, and commits changes."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from agent.archive.format.log import (
    LOG_DIRECTORY,
    STORE_FILE,
    VERSION,
    ArchiveError,
    LogEntry,
    StoreInfo,
    StoreState,
    decode_entry,
    decode_info,
    entry_name,
    is_entry_name,
    state_of,
)
from agent.archive.format.rows import ArchiveRows
from agent.archive.format.segments import SEGMENTS_DIRECTORY, Segment, encode_segment
from elf.batch.table.files import Directory, FileError, open_directory
from elf.errors import ElfError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARQUET_MAGIC = b"PAR1"
_READ_TRIES = 8


@dataclass(frozen=True, slots=True)
class ArchiveStore:
    """One agent's archive as of the moment it was read."""

    directory: Directory
    info: StoreInfo
    state: StoreState

    def reread(self) -> ArchiveStore:
        return read_store(self.directory)


@dataclass(frozen=True, slots=True)
class StoredSegment:
    """A segment and its store."""

    store: ArchiveStore
    segment: Segment

    @property
    def uri(self) -> str:
        return self.store.directory.uri_of(self.segment.file)


def open_stores(uris: Sequence[str], spark: SparkSession | None) -> list[ArchiveStore]:
    """All stores of a table; each URI is a store or a directory of stores.

    Raises ElfError where there is none, where one is damaged, and where two claim to be the same agent's.
    """
    found: dict[str, ArchiveStore] = {}
    for uri in uris:
        for directory in _stores_at(open_directory(uri, spark)):
            found.setdefault(directory.uri, read_store(directory))
    stores = list(found.values())
    _refuse_twins(stores)
    return stores


def read_store(directory: Directory) -> ArchiveStore:
    """Reads a store, while others may be writing to it. Raises ElfError."""
    try:
        info = decode_info(directory.read(STORE_FILE), directory.uri)
        return ArchiveStore(directory, info, _read_state(directory))
    except ArchiveError as error:
        raise ElfError(str(error)) from error


def find_store(uri: str, agent: str, spark: SparkSession | None) -> ArchiveStore:
    """The agent's store at a URI or below it, created where there is none.

    Raises ElfError where the URI is another agent's store.
    """
    directory = open_directory(uri, spark)
    stores = open_stores([uri], spark) if any(_looks_like_store(one) for one in _candidates(directory)) else []
    for store in stores:
        if store.info.agent == agent:
            return store
    if any(store.directory.uri == directory.uri for store in stores):
        raise ElfError(f"{uri}: is the archive of agent {stores[0].info.agent}, not of {agent}: name it with --agent")
    return _create_store(directory.child(directory_name(agent)), agent)


def directory_name(agent: str) -> str:
    """Name of an agent's store in a directory of stores: the agent's name if that can be a file name, else in hex."""
    plain = agent.isprintable() and "/" not in agent and "%" not in agent and not agent.startswith(".")
    return agent if plain else agent.encode().hex()


def commit(store: ArchiveStore, written_ms: int, *, add: Sequence[Segment] = (), remove: Iterable[str] = ()) -> None:
    """Writes one entry of the log, which makes the whole change visible at once."""
    entry = LogEntry(VERSION, written_ms, list(add), list(remove))
    store.directory.write(f"{LOG_DIRECTORY}/{entry_name(written_ms)}", msgspec.json.encode(entry))


def put(store: ArchiveStore, rows: Sequence[ArchiveRows], written_ms: int) -> Segment:
    """Adds rows of one stream as one segment. Of rows with one key, the latest counts."""
    data, segment = encode_segment(rows, written_ms)
    store.directory.write(segment.file, data)
    commit(store, written_ms, add=[segment])
    return segment


def torn(segments: Iterable[StoredSegment]) -> dict[str, str]:
    """Names of segments whose files are not as they were written → the fault."""
    faults = {}
    sizes: dict[str, dict[str, int]] = {}
    for one in segments:
        directory = one.store.directory
        if directory.uri not in sizes:
            sizes[directory.uri] = {found.name: found.bytes for found in directory.list(SEGMENTS_DIRECTORY)}
        fault = _fault(one, sizes[directory.uri].get(one.segment.file.rpartition("/")[2]))
        if fault:
            faults[one.segment.name] = f"{directory.uri}/{one.segment.file}: {fault}"
    return faults


def _fault(one: StoredSegment, size: int | None) -> str | None:
    if size is None:
        return "is missing"
    if size != one.segment.bytes:
        return f"is torn: it has {size:,} bytes of {one.segment.bytes:,}"
    ends = one.store.directory.ends(one.segment.file, len(PARQUET_MAGIC))
    return None if ends == (PARQUET_MAGIC, PARQUET_MAGIC) else "is damaged: it is no whole Parquet file"


def _stores_at(directory: Directory) -> list[Directory]:
    found = [one for one in _candidates(directory) if _looks_like_store(one)]
    if not found:
        raise ElfError(f"{directory.uri}: there is no archive: neither it nor a directory in it has a {STORE_FILE}")
    for one in found:
        names = {entry.name for entry in one.list()}
        if STORE_FILE not in names:
            raise ElfError(
                f"{one.uri}: its {STORE_FILE} is missing, so nobody knows whose archive it is: restore it from a copy"
            )
        if LOG_DIRECTORY not in names:
            raise ElfError(
                f"{one.uri}: its {LOG_DIRECTORY} is missing: the archive is not whole; restore it from a copy"
            )
    return found


def _candidates(directory: Directory) -> list[Directory]:
    """The directory itself if it is a store, else its subdirectories."""
    if _looks_like_store(directory):
        return [directory]
    return [directory.child(found.name) for found in directory.list() if found.is_directory]


def _looks_like_store(directory: Directory) -> bool:
    names = {found.name for found in directory.list()}
    return STORE_FILE in names or {LOG_DIRECTORY, SEGMENTS_DIRECTORY} <= names


def _refuse_twins(stores: Sequence[ArchiveStore]) -> None:
    """Raises ElfError for two stores of one agent's name; copies of one store are fine."""
    by_agent: dict[str, ArchiveStore] = {}
    for store in stores:
        other = by_agent.setdefault(store.info.agent, store)
        if other.info.id != store.info.id:
            raise ElfError(
                f"{other.directory.uri} and {store.directory.uri} both say they are of agent {store.info.agent}, and"
                " are two: give one of the agents another name, or ask them one at a time"
            )


def _read_state(directory: Directory) -> StoreState:
    for tries_left in reversed(range(_READ_TRIES)):
        names = [found.name for found in directory.list(LOG_DIRECTORY) if is_entry_name(found.name)]
        try:
            read = {name: directory.read(f"{LOG_DIRECTORY}/{name}") for name in names}
        except FileError:  # the log was compacted meanwhile
            if not tries_left:
                raise
            continue
        return state_of(
            {name: decode_entry(data, f"{directory.uri}/{LOG_DIRECTORY}/{name}") for name, data in read.items()}
        )
    raise AssertionError


def _create_store(directory: Directory, agent: str) -> ArchiveStore:
    info = StoreInfo(VERSION, agent, uuid.uuid4().hex)
    directory.make(LOG_DIRECTORY)
    directory.make(SEGMENTS_DIRECTORY)
    directory.write(STORE_FILE, msgspec.json.encode(info))
    return read_store(directory)
