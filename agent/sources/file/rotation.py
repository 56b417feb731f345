"""Finds the files that logs were rotated into: under other names, as copies, or compressed."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from agent.sources.file.compression import compression_of
from agent.sources.file.expanded_content import expanded_head
from agent.sources.file.finding import NAMES_MAX, FoundFile, FoundFiles, Identity
from agent.sources.file.followed_file import FINGERPRINT_BYTES, ReadUpTo

COMPRESSED_SUFFIXES = (".gz", ".zst")
COMPRESSED_LOOKED_INTO_MAX = 1024
"""Upper bound on compressed files whose beginnings are looked at in search of one."""

_ROTATION = re.compile(r"[._-](?P<number>[0-9][0-9T_.:-]*)(\.gz|\.zst)?|\.gz|\.zst")
"""Matches what rotation adds to a log's name: `.1`, `-20260102`, `.2.gz`, `.gz`."""
_ROTATED = re.compile(rf"(?P<log>.+?)({_ROTATION.pattern})")
_DIGITS = re.compile(r"[0-9]+")
_NS = 1_000_000_000
TELLING_BYTES = 256
"""Size of a beginning from which two files that share it are the same."""
_DATE_DIGITS = 6


@dataclass(slots=True)
class FoundAgain:
    """Known files that go on in a file, those that are gone, and files that came after them and that nobody has read,
    the oldest first.
    """

    resumed: dict[Identity, tuple[ReadUpTo, FoundFile]] = field(default_factory=dict)
    """By the identity of the file to be read on."""
    gone: list[ReadUpTo] = field(default_factory=list)
    unread: list[FoundFile] = field(default_factory=list)


def is_rotation_of(path: str, log: str) -> bool:
    """Whether a file beside a log has a name that rotation gives to it."""
    one, other = Path(path), Path(log)
    has_its_name = one.name.startswith(other.name) and _ROTATION.fullmatch(one.name, len(other.name)) is not None
    return has_its_name and one.parent == other.parent


def is_compressed(path: str, first: bytes) -> bool:
    """Whether a file with this name and these first bytes is compressed."""
    return path.lower().endswith(COMPRESSED_SUFFIXES) or compression_of(first) is not None


def siblings(path: str) -> list[FoundFile]:
    """The files beside a log at `path` with names that rotation gives, the oldest first."""
    log, found = Path(path), []
    with suppress(OSError), os.scandir(log.parent) as entries:
        for entry in islice(entries, NAMES_MAX):
            if entry.name.startswith(log.name) and _ROTATION.fullmatch(entry.name, len(log.name)):
                with suppress(OSError):  # it has just vanished
                    if entry.is_file(follow_symlinks=False):
                        found.append(FoundFile(entry.path, entry.stat(follow_symlinks=False)))
    return sorted(found, key=lambda file: file.status.st_mtime_ns)


def find_moved(known: ReadUpTo, but: Collection[Identity] = ()) -> FoundFile | None:
    """Finds the file in which a known one goes on: a copy, or compressed, beside it, changed no earlier than it was."""
    if not known.fingerprint_bytes:
        return None  # any file may be that one
    beside = {file.identity: file for path in {known.path, log_of(known.path)} for file in siblings(path)}
    others = [file for identity, file in beside.items() if identity not in but]
    later = [file for file in others if _is_changed_since(file, known.modified_ns)]
    looked_into = sorted(later, key=lambda file: (file.status.st_mtime_ns, _has_compressed_name(file)))
    return next((file for file in looked_into[:COMPRESSED_LOOKED_INTO_MAX] if _holds(file, known)), None)


def find_compressed(log: str, since_ns: int, read: Iterable[bytes]) -> list[FoundFile]:
    """Finds compressed files that a log was rotated into, changed since a time, and that begin like none of `read`."""
    found = [file for file in siblings(log) if _has_compressed_name(file)]
    return [file for file, _ in _unlike(read, found, since_ns)]


def find_copies_between(before: ReadUpTo, read: Iterable[bytes]) -> list[FoundFile]:
    """Finds copies of what a log held for a moment, between the content that was read and the present one: plain or
    compressed, changed since then, and beginning like none of `read`. The oldest first.
    """
    unlike = _unlike(read, siblings(log_of(before.path)), before.modified_ns)
    return [file for file, head in unlike if head and not before.begins(head)]


def _unlike(read: Iterable[bytes], found: Iterable[FoundFile], since_ns: int) -> Iterator[tuple[FoundFile, bytes]]:
    """The files changed since a time that begin like none of `read`, with their beginnings."""
    heads, later = list(read), [file for file in found if _is_later(file, since_ns)]
    beginnings = ((file, _head(file)) for file in later[:COMPRESSED_LOOKED_INTO_MAX])
    return ((file, head) for file, head in beginnings if not _is_among(head, heads))


def find_again(known: Sequence[ReadUpTo], found: FoundFiles, patterns: Sequence[str]) -> FoundAgain:
    """Finds known files by their identities and contents. `found`: the files that match the patterns of the stream."""
    again, missing = FoundAgain(), []
    renamed = {file.identity: file for file in _renamed(known)}
    for one in known:
        file = found.files.get(one.identity) or renamed.get(one.identity)
        if file is not None and one.fingerprint_bytes and _holds(file, one):
            again.resumed[file.identity] = one, file
        else:
            missing.append(one)
    for one in sorted(missing, key=lambda one: (not one.fingerprint_bytes, one.modified_ns)):
        file = find_moved(one, again.resumed) if one.fingerprint_bytes else None
        if not one.fingerprint_bytes:
            file = _still_plain(found.files.get(one.identity) or renamed.get(one.identity), one, again)
        if file is not None:
            again.resumed[file.identity] = one, file
        elif not _is_resumed_elsewhere(one, again):
            again.gone.append(one)
    logs = {*patterns, *(file.path for file in found.files.values())}
    by_log: dict[str, list[ReadUpTo]] = {}
    for one in known:
        by_log.setdefault(log_of(one.path) if log_of(one.path) in logs else one.path, []).append(one)
    for log, ones in by_log.items():
        again.unread += _unread(log, ones, again, found)
    return again


def _unread(log: str, known: Sequence[ReadUpTo], again: FoundAgain, found: FoundFiles) -> list[FoundFile]:
    """The files that a log was rotated through after the newest of those known, unless that is still the log."""
    files = {one.identity: file for one, file in again.resumed.values()}
    newest = max(known, key=lambda one: one.modified_ns)
    last = files.get(newest.identity)
    if last is not None and last.path == newest.path and newest.fingerprint_bytes:
        return []
    if last is None and not newest.modified_ns:
        return []
    since_ns = newest.modified_ns if last is None or not newest.fingerprint_bytes else last.status.st_mtime_ns
    beside = [*siblings(log), *_linked_meanwhile(log, last)]
    later = [file for file in beside if file.identity not in again.resumed]
    plain = [file for file in later if not _has_compressed_name(file) and _is_later(file, since_ns)]
    others = [*plain, *files.values(), *found.files.values()]
    heads = [head for file in others if (head := _head(file))]
    compressed = []
    for file in later[:COMPRESSED_LOOKED_INTO_MAX]:
        is_later = _has_compressed_name(file) and _is_changed_since(file, since_ns)
        if is_later and not (last is not None and _is_older(file.path, last.path, log)):
            head = _head(file)
            if not _is_among(head, heads):
                compressed.append(file)
                heads.append(head)
    fresh = [file for file in plain if file.identity not in found.files]
    return sorted([*fresh, *compressed], key=lambda file: file.status.st_mtime_ns)


def _linked_meanwhile(log: str, last: FoundFile | None) -> list[FoundFile]:
    """The files to which a link may have pointed since it pointed to `last`: their names differ from that and from the
    one it points to now in numbers alone."""
    now = Path(log).resolve()
    if last is None or not Path(log).is_symlink() or _shape(now) != _shape(Path(last.path)):
        return []
    return [file for file in _regular_files(now.parent) if _shape(Path(file.path)) == _shape(now)]


def _shape(path: Path) -> str:
    name = str(path)
    suffix = path.suffix if path.suffix.lower() in COMPRESSED_SUFFIXES else ""
    return _DIGITS.sub("0", name.removesuffix(suffix))


def _regular_files(folder: Path) -> list[FoundFile]:
    found: list[FoundFile] = []
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in islice(entries, NAMES_MAX):
            with suppress(OSError):  # it has just vanished
                if entry.is_file(follow_symlinks=False):
                    found.append(FoundFile(entry.path, entry.stat(follow_symlinks=False)))
    return found


def _still_plain(file: FoundFile | None, known: ReadUpTo, again: FoundAgain) -> FoundFile | None:
    """The file with the identity of one that was empty, unless that is by now the number of a file known otherwise."""
    if file is None or file.identity in again.resumed or _has_compressed_name(file) or not _holds(file, known):
        return None
    head = _head(file)
    return None if head and _is_among(head, (_head(other) for _, other in again.resumed.values())) else file


def log_of(path: str) -> str:
    """The log that a file with a rotated name was, by that name; another file itself."""
    match = _ROTATED.fullmatch(Path(path).name)
    return str(Path(path).with_name(match["log"])) if match else path


def _is_older(path: str, than: str, log: str) -> bool:
    """Whether a rotated file is, by the names of both, older than another: a higher number, or an earlier date."""
    one, other = (_ROTATION.fullmatch(Path(name).name, len(Path(log).name)) for name in (path, than))
    number, other_number = (found["number"] or "" if found else "" for found in (one, other))
    if len(number) >= _DATE_DIGITS and len(other_number) >= _DATE_DIGITS:
        return number < other_number
    return number.isdecimal() and other_number.isdecimal() and int(number) > int(other_number)


def _has_compressed_name(file: FoundFile) -> bool:
    return file.path.lower().endswith(COMPRESSED_SUFFIXES)


def _is_changed_since(file: FoundFile, time_ns: int) -> bool:
    """Whether a file was changed since; a compressed one has the time of what it was made from, which some tools round
    down to seconds, and counts once that is gone.
    """
    modified_ns = file.status.st_mtime_ns
    if not _has_compressed_name(file):
        return modified_ns >= time_ns
    if modified_ns % _NS == 0:
        time_ns -= time_ns % _NS
    return modified_ns >= time_ns and not Path(file.path).with_suffix("").exists()


def _is_later(file: FoundFile, time_ns: int) -> bool:
    """Whether a file is of a later time; a compressed one may be of the same."""
    return _is_changed_since(file, time_ns) and (_has_compressed_name(file) or file.status.st_mtime_ns != time_ns)


def _holds(file: FoundFile, known: ReadUpTo) -> bool:
    """Whether a file has what was read of a known one."""
    head = _head(file, known.fingerprint_bytes)
    is_long_enough = _has_compressed_name(file) or file.status.st_size >= known.offset
    return known.begins(head) and is_long_enough


def _is_resumed_elsewhere(one: ReadUpTo, again: FoundAgain) -> bool:
    """Whether a file is known twice, before and after it was compressed; it goes on where it was read less far."""
    for identity, (other, file) in again.resumed.items():
        if one.fingerprint_bytes >= TELLING_BYTES and _has_compressed_name(file) and _holds(file, one):
            first = min(one, other, key=lambda known: known.offset)
            again.resumed[identity] = first, file
            return True
    return False


def _is_among(head: bytes, heads: Iterable[bytes]) -> bool:
    return bool(head) and any(other[: len(head)] == head for other in heads)


def _head(file: FoundFile, size: int = FINGERPRINT_BYTES) -> bytes:
    """The beginning of a file's content; empty where it cannot be read."""
    try:
        if _has_compressed_name(file):
            return expanded_head(file.path, size)
        with Path(file.path).open("rb", buffering=0) as opened:
            return opened.read(size)
    except OSError:
        return b""


def _renamed(known: Sequence[ReadUpTo]) -> list[FoundFile]:
    """The files with the identities of known ones in their folders."""
    wanted: dict[str, set[Identity]] = {}
    for one in known:
        wanted.setdefault(str(Path(one.path).parent), set()).add(one.identity)
    return [file for folder, identities in wanted.items() for file in _files_with(folder, identities)]


def _files_with(folder: str, identities: Collection[Identity]) -> list[FoundFile]:
    found: list[FoundFile] = []
    inodes = {inode for _, inode in identities}
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in islice(entries, NAMES_MAX):
            with suppress(OSError):  # it has just vanished
                if entry.inode() in inodes and entry.is_file(follow_symlinks=False):
                    file = FoundFile(entry.path, entry.stat(follow_symlinks=False))
                    found += [file] if file.identity in identities else []
    return found
