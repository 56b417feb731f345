"""A store and its log, which lists the segments.

    STORE/store.json                             its owner
    STORE/log/<epoch ms>-<uuid>.json             entries, never changed
    STORE/segments/<name>.parquet

A store holds what its entries add less what they remove: a union of sets, so no commit needs a lock. A segment that no
entry names does not exist. Entries may be *folded* into one with equal contents that names those it replaces; only one
process at a time may do that.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from agent.archive.format.positions import StreamPositions
from agent.archive.format.segments import SEGMENTS_DIRECTORY, Segment
from agent.durable_files import write_durably

VERSION = 1
STORE_FILE = "store.json"
LOG_DIRECTORY = "log"
_ENTRY_NAME = re.compile(r"[0-9]{13}-[0-9a-f]{32}\.json")
_READ_TRIES = 8


class ArchiveError(Exception):
    """A store cannot be used; the message is one line with the store, the reason and the remedy."""


class StoreInfo(msgspec.Struct, frozen=True):
    """The owner of a store. Two stores with one agent and different ids are two agents under one name."""

    version: int
    agent: str
    id: str


class LogEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """One commit. `positions` are those up to which the streams of the committing agent are archived."""

    version: int
    written_ms: int
    add: list[Segment] = []
    remove: list[str] = []
    replaces: list[str] = []
    positions: dict[str, StreamPositions] | None = None


@dataclass(frozen=True, slots=True)
class StoreState:
    """Contents of a store. `removed`: names of removed segments, with the time of their removal."""

    segments: dict[str, Segment] = field(default_factory=dict)
    removed: dict[str, int] = field(default_factory=dict)
    positions: dict[str, StreamPositions] = field(default_factory=dict)
    entries: dict[str, LogEntry] = field(default_factory=dict)


def create_store(path: Path, agent: str) -> StoreInfo:
    """Creates a store, or checks that an existing one belongs to this agent."""
    for directory in (path, path / LOG_DIRECTORY, path / SEGMENTS_DIRECTORY):
        directory.mkdir(mode=0o750, parents=True, exist_ok=True)
    if not (path / STORE_FILE).exists():
        info = StoreInfo(VERSION, agent, uuid.uuid4().hex)
        write_hidden_first(path / STORE_FILE, msgspec.json.encode(info))
    info = read_info(path)
    if info.agent != agent:
        raise ArchiveError(f"{path}: is the archive of agent {info.agent}, not of {agent}: name another directory")
    return info


def read_info(path: Path) -> StoreInfo:
    """Reads the owner of a store. ArchiveError if there is none, or a damaged one; OSError if it cannot be read."""
    try:
        data = (path / STORE_FILE).read_bytes()
    except FileNotFoundError:
        raise ArchiveError(f"{path}: is no archive: it has no {STORE_FILE}") from None
    return decode_info(data, str(path))


def decode_info(data: bytes, store: str) -> StoreInfo:
    """Decodes the owner of a store. ArchiveError, naming `store`, if the bytes are invalid."""
    try:
        info = msgspec.json.decode(data, type=StoreInfo)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ArchiveError(f"{store}: {STORE_FILE} is damaged ({error}): restore it from another copy") from None
    if info.version != VERSION:
        raise ArchiveError(f"{store}: {_other_format(info.version)}")
    return info


def read_state(path: Path) -> StoreState:
    """Reads the state of a store from its entries, while another process may be writing and folding some."""
    for tries_left in reversed(range(_READ_TRIES)):
        try:
            return _read_state(path / LOG_DIRECTORY)
        except FileNotFoundError as error:  # folded in this moment, or there is no log at all
            if not tries_left or not (path / LOG_DIRECTORY).is_dir():
                raise ArchiveError(f"{path}: {error.filename} is missing: the archive is not whole") from None
    raise AssertionError


def _read_state(log: Path) -> StoreState:
    names = sorted(name for name in os.listdir(log) if is_entry_name(name))  # noqa: PTH208
    return state_of({name: decode_entry((log / name).read_bytes(), str(log / name)) for name in names})


def is_entry_name(name: str) -> bool:
    """Whether a file of a log is an entry; other files are unfinished."""
    return _ENTRY_NAME.fullmatch(name) is not None


def decode_entry(data: bytes, name: str) -> LogEntry:
    """Decodes an entry. ArchiveError, with `name`, if the bytes are invalid."""
    try:
        entry = msgspec.json.decode(data, type=LogEntry)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ArchiveError(
            f"{name}: is damaged ({error}): the segments it names are unknown; restore it from another copy,"
            " or move it away to go on without them"
        ) from None
    if entry.version != VERSION:
        raise ArchiveError(f"{name}: {_other_format(entry.version)}")
    return entry


def _other_format(version: int) -> str:
    return f"is of format {version} of archives, and this ELF reads format {VERSION}: use the release that wrote it"


def state_of(entries: Mapping[str, LogEntry]) -> StoreState:
    """The state that these entries, by name, add up to."""
    replaced = {name for entry in entries.values() for name in entry.replaces}
    state = StoreState(entries={name: entry for name, entry in entries.items() if name not in replaced})
    for entry in state.entries.values():
        state.segments.update({segment.name: segment for segment in entry.add})
        for name in entry.remove:
            state.removed[name] = min(state.removed.get(name, entry.written_ms), entry.written_ms)
        for stream, positions in (entry.positions or {}).items():
            known = state.positions.get(stream)
            if known is None or known.sequence < positions.sequence:
                state.positions[stream] = positions
    for name in state.removed:
        state.segments.pop(name, None)
    return state


def commit(
    path: Path,
    written_ms: int,
    *,
    add: Sequence[Segment] = (),
    remove: Iterable[str] = (),
    replaces: Iterable[str] = (),
    positions: Mapping[str, StreamPositions] | None = None,
) -> str:
    """Writes an entry durably and atomically; returns its name."""
    kept = None if positions is None else dict(positions)
    entry = LogEntry(VERSION, written_ms, list(add), list(remove), list(replaces), kept)
    name = entry_name(written_ms)
    write_hidden_first(path / LOG_DIRECTORY / name, msgspec.json.encode(entry))
    return name


def entry_name(written_ms: int) -> str:
    """A name that no other entry has."""
    return f"{written_ms:013d}-{uuid.uuid4().hex}.json"


def write_hidden_first(path: Path, data: bytes) -> None:
    """Writes a file of a store durably, under a name of which no reader takes notice until it is whole."""
    write_durably(path, data, beside=path.with_name(f".{path.name}.new"))
