"""Follows the growing files of a stream through rotation, truncation, creation and deletion.

A file is identified by device and inode, whatever its name, and its descriptor stays open: lines written after it was
renamed or deleted are read too, until none came for a while. Names are checked with every poll, so that a file that
takes over a name is found at once; patterns are checked about once a second, and as soon as the kernel reports a name
that matches. Compressed files are read for what nobody has read of the logs they were made from, and else not at all.
"""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Generic, Literal

from agent.sources.blocks import BLOCK_BYTES, LINE_BYTES_MAX, Block
from agent.sources.faults import Faults
from agent.sources.file.expanded_file import ExpandedFile
from agent.sources.file.finding import (
    FILES_MAX,
    FoundFile,
    FoundFiles,
    Identity,
    find_files,
    identity_of,
    reason_of,
)
from agent.sources.file.folder_watch import FolderWatch, Passed
from agent.sources.file.followed_file import FINGERPRINT_BYTES, CutOff, FollowedFile, ReadUpTo
from agent.sources.file.rotation import (
    find_again,
    find_compressed,
    find_copies_between,
    find_moved,
    is_compressed,
    is_rotation_of,
    log_of,
)
from agent.sources.reader import F, ReaderStatistics, Recognise, SourceBlock, SourcePart

LOOK_S = 1.0
"""Interval at which patterns are matched."""
GONE_S = 30.0
"""Time a file without a name is followed after its last change: a server writes on until it reopens its log."""
POLL_BYTES = 4 << 20
MISSED_MAX = 64
"""Upper bound on known files in `positions` that have not been found so far."""

_QUIET_S = 10.0
_LOOKED_AT_MAX = 64  # files that are looked at in every poll; of more, only those that changed lately
_CLOSED_MAX = 64  # files whose beginnings are remembered after they were closed
_EARLIEST = float("-inf")


class TailReader(Generic[F]):
    """The lines of all files that match, as they are written: see `StreamReader`.

    Files that are there at the first poll are read from their end or beginning, later ones from their beginning.
    Those whose events lag behind are read first, as far as their readers say (`SourcePart.reached_ms`).
    `known`: files that were read before, which go on from there, also where none of the names is theirs any more.
    """

    def __init__(
        self,
        patterns: Sequence[str],
        recognise: Recognise[F],
        *,
        read_from: Literal["end", "beginning"] = "end",
        block_bytes: int = BLOCK_BYTES,
        line_bytes_max: int = LINE_BYTES_MAX,
        poll_bytes: int = POLL_BYTES,
        files_max: int = FILES_MAX,
        known: Iterable[ReadUpTo] = (),
    ) -> None:
        self._known = {one.identity: one for one in known}
        self._patterns = tuple(patterns)
        self._recognise = recognise
        self._read_from = read_from
        self._block_bytes, self._line_bytes_max = block_bytes, line_bytes_max
        self._poll_bytes, self._files_max = poll_bytes, files_max
        self._files: dict[Identity, FollowedFile[F]] = {}
        self._left_out: dict[Identity, int] = {}  # could not be opened at the first look: size at that time
        self._compressed: dict[Identity, str] = {}  # with their names: numbers are used again
        self._copies: dict[Identity, str] = {}  # of followed files, which may be about to be truncated
        self._closed: deque[bytes] = deque(maxlen=_CLOSED_MAX)
        self._closed_ns = 0  # last change of all files that were closed
        self._vanished: list[Passed] = []  # between a look and the opening
        self._between: dict[Identity, FoundFile] = {}  # copies of what a log held between two truncations
        self._missed = 0
        self._lost = 0
        self._watch = FolderWatch(self._patterns)
        self._faults = Faults()
        self._next_look = _EARLIEST
        self._replaced: set[Identity] = set()  # of known files, which others have by now
        self._gone = 0  # known files of which some cannot be read
        self._done = ReaderStatistics()  # by files that are closed

    @property
    def at_end(self) -> bool:
        return not self.behind()

    def behind(self) -> Sequence[SourcePart]:
        return [file for file in self._files.values() if file.is_behind]

    @property
    def files(self) -> Sequence[FollowedFile[F]]:
        """The files that are followed."""
        return list(self._files.values())

    @property
    def missed(self) -> Sequence[ReadUpTo]:
        """Known files that have not been found so far."""
        return list(self._known.values())

    @property
    def positions(self) -> tuple[ReadUpTo, ...]:
        """The positions up to which lines were returned, for a later reading; of known files that are missed, as they
        were."""
        return (*map(self._position, self._files.values()), *islice(self._known.values(), MISSED_MAX))

    def _position(self, file: FollowedFile[F]) -> ReadUpTo:
        """The position in a file. Of an empty one, all that will be written is later than what was read of others."""
        read = file.read_up_to
        return read if read.fingerprint_bytes else replace(read, modified_ns=max(read.modified_ns, self._closed_ns))

    def drop_deleted(self) -> tuple[int, int]:
        """Closes files that were deleted before they were read to their ends; returns the lines and bytes lost.

        While a deleted file is open, it still takes up disk space. One that is there compressed goes on there.
        """
        lines = size = 0
        for file in [file for file in self._files.values() if file.is_deleted]:
            known = file.position_by_content()
            moved = find_moved(known, self._files)
            if moved is not None and self._resume(known, moved, file.changed_at):
                self._forget(file)
                continue
            unread = file.count_unread()
            lines, size = lines + unread[0], size + unread[1]
            self._forget(file)
        return lines, size

    def poll(self, now: float) -> list[SourceBlock[F]]:
        """Returns what has been written since the last poll, about `poll_bytes` of it."""
        pieces: list[SourceBlock[F]] = []
        self.look(now)
        budget = self._poll_bytes
        for file in sorted((file for file in self._files.values() if file.is_due(now)), key=_lag):
            if budget <= 0:
                break
            before = file.fetched
            pieces += _pieces(file, self._read(file, now))
            budget -= file.fetched - before
        return pieces + self._close_gone(now)

    def is_quiet(self, now: float) -> bool:
        looked_at = [file for file in self.files if self._is_looked_at(file, now)]
        if now >= self._next_look or len(looked_at) > _LOOKED_AT_MAX or self._watch.has_news():
            return False
        if any(file.is_due(now) for file in self.files):
            return False
        return not self._between and all(file.is_unchanged(now) for file in looked_at)

    def faults(self) -> list[str]:
        return self._faults.drain()

    def statistics(self) -> ReaderStatistics:
        files, done = self._files.values(), self._done
        return replace(
            done, bytes_read=done.bytes_read + sum(file.consumed for file in files),
            truncated=done.truncated + sum(file.truncated for file in files), files=len(files),
            unreadable=len(self._faults), gone=len(self._known) + self._gone, missed=self._missed,
            losses=len(self._known) + self._gone + self._missed + self._lost,
        )  # fmt: skip

    def close(self) -> None:
        for file in self._files.values():
            file.close()
        self._files.clear()
        self._watch.close()

    def _read(self, file: FollowedFile[F], now: float) -> list[Block]:
        try:
            blocks = file.read(now)
        except OSError as error:
            self._fail(file, error)
            return []
        if isinstance(file, ExpandedFile) and file.is_over and file.loss is not None:
            self._faults.report(file.path, file.loss)
            self._done = replace(self._done, broken=self._done.broken + 1)
            self._gone += 1
        return blocks

    def _fail(self, file: FollowedFile[F], error: OSError) -> None:
        """Leaves a failing file alone until the next check of names."""
        file.trouble = reason_of(error)
        self._done = replace(self._done, broken=self._done.broken + 1)

    def look(self, now: float) -> None:
        """Keeps track of names without reading, so that no renamed file is lost."""
        if now >= self._next_look or self._any_moved(now) or self._watch.has_news():
            is_first, self._next_look = self._next_look == _EARLIEST, now + LOOK_S
            self._look_at_names(now, is_first)

    def _is_looked_at(self, file: FollowedFile[F], now: float) -> bool:
        """Whether a file is looked at in every poll, and not only where names are."""
        return len(self._files) <= _LOOKED_AT_MAX or now < file.changed_at + _QUIET_S

    def _any_moved(self, now: float) -> bool:
        """Notices changes of files, in the first place; whether a name was lost or taken by a file not known yet."""
        moved = False
        for file in self.files:
            if not self._is_looked_at(file, now):
                continue
            named = file.stat_name()
            if named is not None and identity_of(named) == file.identity:
                self._notice(file, named, now)
            else:
                self._notice(file, None, now)
                moved |= file.gone_since is None or (named is not None and self._is_new(identity_of(named), file.path))
        return moved or bool(self._between)

    def _notice(self, file: FollowedFile[F], status: os.stat_result | None, now: float) -> None:
        truncated = file.truncated
        try:
            file.look(status or file.stat(), now)
        except OSError as error:
            self._fail(file, error)
        if file.truncated > truncated and file.cut_off is not None:
            copied = self._take_copy(file.cut_off, now)
            unread = 0 if copied else file.cut_off.unread_bytes
            self._lost += unread > 0
            between = find_copies_between(file.cut_off.read_up_to, self._heads())
            self._between |= {one.identity: one for one in between if self._is_new(one.identity, one.path)}
            lost = f"; {unread:,} bytes had not been read" if unread else ""
            self._faults.report(file.path, f"was truncated: it is read from its beginning{lost}")

    def _take_copy(self, before: CutOff, now: float) -> bool:
        """Follows the copy that was made of a file before it was truncated (`copytruncate`), from where the file's
        reading had come to. Returns whether there is one."""
        known = before.read_up_to
        copy = find_moved(known, self._files) if known.offset else None
        if copy is None or not self._resume(known, copy, now):
            return False
        self._copies.pop(copy.identity, None)
        return True

    def _resume(self, known: ReadUpTo, found: FoundFile, now: float) -> bool:
        """Follows a file from a known position, if it is the file that the position is of."""
        if len(self._files) >= self._files_max:
            return False
        try:
            file = self._file(found, _opened(found.path))
        except OSError:
            return False
        try:
            is_resumed = file.resume(known)
        except OSError:
            is_resumed = False
        if not is_resumed:
            file.close()
            return False
        file.look(found.status, now)
        self._files[file.identity] = file
        return True

    def _look_at_names(self, now: float, is_first: bool) -> None:
        passed, self._vanished = [*self._vanished, *self._watch.take()], []
        found = find_files(self._patterns)
        standing = dict(found.refused)
        for file in self.files:
            match = found.files.get(file.identity)
            self._note_name(file, match, standing, now)
            self._notice(file, match.status if match else None, now)
        self._compressed = {key: path for key, path in self._compressed.items() if key in found.files}
        self._left_out = {key: size for key, size in self._left_out.items() if key in found.files}
        unread = self._read_on(found, now) if is_first else self._passed(passed)
        unread += [file for identity, file in self._between.items() if identity not in {one.identity for one in unread}]
        self._between.clear()
        fresh = [file for identity, file in found.files.items() if self._is_new(identity, file.path)]
        wanted = {file.identity for file in unread}
        fresh = [*unread, *(file for file in fresh if file.identity not in wanted)]
        self._copies = {key: path for key, path in self._copies.items() if key in found.files}
        fresh.sort(key=lambda file: file.status.st_mtime_ns, reverse=True)
        for new in fresh:
            is_unread = new.identity in wanted
            if self._take(new, standing, now, is_first=is_first, is_unread=is_unread):
                continue
            if is_unread and new.path not in standing:
                self._vanished.append(Passed(log_of(new.path), None))
            elif is_first and self._read_from == "end":
                self._left_out[new.identity] = new.status.st_size
        if not found.files and not standing:
            standing[" ".join(self._patterns)] = "matches no file yet"
        self._faults.update(standing)

    def _read_on(self, found: FoundFiles, now: float) -> list[FoundFile]:
        """Goes on in known files, wherever they are by now. Files not found are reported; they may come back. Returns
        those that a log was rotated through meanwhile: nobody has read them."""
        if not self._known:
            return []
        again = find_again(list(self._known.values()), found, self._patterns)
        for known, file in again.resumed.values():
            if self._resume(known, file, now):
                del self._known[known.identity]
                self._replaced |= {known.identity} - {file.identity}
        for known in again.gone:
            if known.identity not in found.files:
                what = f"is gone: what it may have held from byte {known.offset:,} on is not read unless it comes back"
                self._faults.report(known.path, what)
        return again.unread

    def _passed(self, passed: Sequence[Passed]) -> list[FoundFile]:
        """Files that had a matching name between two looks. Those that cannot be read any more are counted."""
        found: dict[Identity, FoundFile] = {}
        deleted = {file.path for file in self.files if file.is_deleted}
        known = [*(file.path for file in self._between.values()), *(file.path for file in self.files)]
        for one in passed:
            try:
                status = Path(one.path).lstat() if one.path is not None else None
            except OSError:
                status = None
            if status is None:
                compressed = self._compressed_meanwhile(one.name, found)
                found |= compressed
                is_copied = any(Path(path).stem == Path(one.name).name and is_compressed(path, b"") for path in known)
                if not (compressed or is_copied or one.name in deleted):
                    self._missed += 1
                    self._faults.report(one.name, "had this name for a moment and is gone: it was not read")
            elif stat.S_ISREG(status.st_mode) and self._is_new(identity_of(status), one.path or one.name):
                found[identity_of(status)] = FoundFile(one.path or one.name, status)
        return list(found.values())

    def _compressed_meanwhile(self, name: str, found: Collection[Identity]) -> dict[Identity, FoundFile]:
        """Files made of a log that had this name for a moment: later than the one before, and not read."""
        before = [file.modified_ns for file in self.files if file.path == name or is_rotation_of(file.path, name)]
        if not before and not self._closed_ns:
            return {}
        files = find_compressed(name, max([*before, self._closed_ns]), self._heads())
        return {file.identity: file for file in files if file.identity not in {*self._files, *self._compressed, *found}}

    def _heads(self) -> list[bytes]:
        """The beginnings of all files that are or were read."""
        return [*self._closed, *(file.head() for file in self.files)]

    def _note_name(self, file: FollowedFile[F], match: FoundFile | None, standing: dict[str, str], now: float) -> None:
        if match is not None:
            file.rename(match.path)
            file.gone_since = None
        elif file.gone_since is None:
            file.gone_since = now
        fault = file.trouble or file.fault(now)
        if fault is not None:
            standing[file.path] = fault
        file.trouble = None

    def _is_new(self, identity: Identity, path: str) -> bool:
        return identity not in self._files and path not in (self._compressed.get(identity), self._copies.get(identity))

    def _take(self, found: FoundFile, standing: dict[str, str], now: float, *, is_first: bool, is_unread: bool) -> bool:
        """Opens a new file. Returns whether it is taken care of from now on."""
        if len(self._files) >= self._files_max:
            standing[" ".join(self._patterns)] = f"matches more than {self._files_max:,} files: some are not followed"
            return False
        try:
            descriptor = _opened(found.path)
        except FileNotFoundError:
            return False  # gone again, or renamed: it will be found under its new name
        except OSError as error:
            standing[found.path] = reason_of(error)
            return False
        try:
            return self._follow(found, descriptor, now, is_first=is_first, is_unread=is_unread)
        except OSError as error:
            os.close(descriptor)
            standing[found.path] = reason_of(error)
            return False

    def _follow(self, found: FoundFile, descriptor: int, now: float, *, is_first: bool, is_unread: bool) -> bool:
        status = os.fstat(descriptor)  # what was opened need not be what was found
        identity, first = identity_of(status), os.pread(descriptor, FINGERPRINT_BYTES, 0)
        if not stat.S_ISREG(status.st_mode) or not self._is_new(identity, found.path):
            os.close(descriptor)
            return True
        if is_compressed(found.path, first) and not is_unread and identity not in self._known:
            os.close(descriptor)
            if not self._compressed:
                self._faults.report(found.path, "is compressed: such files are not followed, here and elsewhere")
            self._compressed[identity] = found.path
            return True
        if not is_first and identity not in self._known and self._is_copy(found.path, first, status):
            os.close(descriptor)
            self._copies[identity] = found.path
            return True
        file = self._file(FoundFile(found.path, status), descriptor)
        known = self._known.pop(identity, None)
        if known is not None and not file.resume(known):
            self._gone += 1
            self._faults.report(found.path, f"is not what was read as {known.path}: it is read from its beginning")
        is_another = is_unread or known is not None or identity in self._replaced
        from_end = is_first and self._read_from == "end" and not is_another
        start = status.st_size if from_end else self._left_out.pop(identity, 0)
        if start:
            file.start_at(start)
        file.look(status, now)
        self._files[identity] = file
        return True

    def _file(self, found: FoundFile, descriptor: int) -> FollowedFile[F]:
        kind = ExpandedFile if is_compressed(found.path, b"") else FollowedFile
        return kind(
            found, descriptor, self._recognise, block_bytes=self._block_bytes, line_bytes_max=self._line_bytes_max
        )

    def _is_copy(self, path: str, first: bytes, status: os.stat_result) -> bool:
        """Whether a new file is a copy of a followed one, which may be about to be truncated."""
        return any(
            is_rotation_of(path, file.path) and status.st_mtime_ns >= file.modified_ns and file.begins_like(first)
            for file in self.files
        )

    def _close_gone(self, now: float) -> list[SourceBlock[F]]:
        """Closes files without a name to which nothing was written for a while, and compressed ones that are over."""
        pieces: list[SourceBlock[F]] = []
        for file in list(self._files.values()):
            if isinstance(file, ExpandedFile):
                if file.is_over and now >= file.changed_at + GONE_S:
                    self._compressed[file.identity] = file.path
                    self._forget(file)
                continue
            since = file.gone_since
            if since is None or file.is_behind or now < max(since, file.changed_at) + GONE_S:
                continue
            with suppress(OSError):
                pieces += _pieces(file, file.finish())
            self._forget(file)
        return pieces

    def _forget(self, file: FollowedFile[F]) -> None:
        self._done = _with(self._done, file)
        self._closed_ns = max(self._closed_ns, file.modified_ns)
        with suppress(OSError):
            self._closed.append(file.head())
        del self._files[file.identity]
        file.close()


def _opened(path: str) -> int:
    """A descriptor of a file to read. Opening it never waits."""
    return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK)


def _pieces(file: FollowedFile[F], blocks: Sequence[Block]) -> list[SourceBlock[F]]:
    if not blocks:
        return []
    assert file.form is not None, "lines are handed out in a format"
    return [SourceBlock(file, block, file.form) for block in blocks]


def _lag(file: FollowedFile[F]) -> tuple[float, int]:
    """Smallest for the file to be read next."""
    return file.reached_ms if file.reached_ms is not None else _EARLIEST, file.fetched


def _with(statistics: ReaderStatistics, file: FollowedFile[F]) -> ReaderStatistics:
    return replace(
        statistics,
        bytes_read=statistics.bytes_read + file.consumed,
        truncated=statistics.truncated + file.truncated,
    )
