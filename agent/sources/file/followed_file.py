"""Follows one growing file, and returns its new whole lines.

Nothing of the file is held between reads: an incomplete line is read again with its rest. A thousand files therefore
cost a thousand descriptors and no buffers.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, replace
from typing import Generic

from agent.sources.blocks import BLOCK_BYTES, LINE_BYTES_MAX, Block, BlockCutter
from agent.sources.file.finding import FoundFile, Identity, identity_of
from agent.sources.file.format_probe import FormatProbe
from agent.sources.reader import F, Recognise, SourcePart

OPEN_RECORD_S = 2.0
"""Time that lines after an open CSV quote wait for the closing one."""
UNKNOWN_S = 5.0
"""Delay after a file's last change before it is reported to fit no format."""

FINGERPRINT_BYTES = 4096
"""Upper bound on the size of a file's beginning that tells it from others."""
_BACKWARD_BYTES = 64 << 10
_SEARCHED_BYTES = 16 << 10
"""Bytes before the end of a block that are searched for a line's end."""
_COUNTED_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class ReadUpTo:
    """Position up to which a file was read. The digest of its first bytes tells it from later files with its inode."""

    path: str
    identity: Identity
    fingerprint_bytes: int
    fingerprint: str
    offset: int
    modified_ns: int = 0
    """The time of the file's last change when it was looked at last (epoch), or 0; all that is later changed later."""

    def begins(self, first: bytes) -> bool:
        """Whether a file with these first bytes may be the one that was read."""
        return len(first) >= self.fingerprint_bytes and digest(first[: self.fingerprint_bytes]) == self.fingerprint


@dataclass(frozen=True, slots=True)
class CutOff:
    """A reading that a truncation has ended, with the file's time of change and size when it was looked at before."""

    read_up_to: ReadUpTo
    modified_ns: int
    size: int

    @property
    def unread_bytes(self) -> int:
        return max(0, self.size - self.read_up_to.offset)


def digest(first: bytes) -> str:
    return hashlib.blake2b(first, digest_size=16).hexdigest()


class FollowedFile(SourcePart, Generic[F]):
    """An open file and the position up to which its lines have been returned.

    `look` takes the file's status; then, if the file `is_due`, `read` returns about a block. `is_behind`: more than the
    beginning of a line is left. `fetched` counts the bytes read, `consumed` those returned or skipped, from `began_at`
    on. Calls raise OSError where the file system fails; the owner notes that in `trouble`.
    """

    def __init__(
        self,
        found: FoundFile,
        descriptor: int,
        recognise: Recognise[F],
        *,
        block_bytes: int = BLOCK_BYTES,
        line_bytes_max: int = LINE_BYTES_MAX,
    ) -> None:
        super().__init__(found.path)
        self.identity = found.identity
        self.gone_since: float | None = None
        self.changed_at = float("-inf")
        self.trouble: str | None = None
        self.truncated = 0
        self.cut_off: CutOff | None = None
        """The reading that the last truncation has ended."""
        self.resumed: ReadUpTo | None = None
        """The position of an earlier reading that this one has resumed."""
        self.fetched = 0
        self.consumed = 0
        self._descriptor = descriptor
        self._recognise = recognise
        self._block_bytes, self._line_bytes_max = block_bytes, line_bytes_max
        self._size = 0
        self._modified_ns = 0
        self._held_since: float | None = None  # lines after an open CSV quote
        self._read_up_to: ReadUpTo | None = None
        self._prepare()
        self._begin(0)

    def _prepare(self) -> None:
        """Prepares what a kind of file has beside this, before its reading begins."""

    @property
    def form(self) -> F | None:
        return self._head.form

    def fault(self, now: float) -> str | None:
        """The reason its lines fit no format; None while the file is being written and may yet fit one."""
        is_over = self._head.is_settled or now >= self.changed_at + UNKNOWN_S
        return self._head.fault if is_over else None

    @property
    def is_behind(self) -> bool:
        can_be_read = self.trouble is None and (self.form is not None or not self._head.is_settled)
        return can_be_read and self._size > self._read_upto

    def start_at(self, size: int) -> None:
        """Skips the file's first `size` bytes, but not a line that goes on beyond them."""
        start = self._line_start(size)
        self._begin(start if start is not None else size)
        if start is None:
            self._cutter.skip_line()
        self._take_fingerprint()

    def resume(self, known: ReadUpTo) -> bool:
        """Resumes an earlier reading. Returns False, and does nothing, if this is another file."""
        if not known.begins(self._pread(known.fingerprint_bytes, 0)) or self.stat().st_size < known.offset:
            return False
        self._begin(known.offset)
        if known.offset and self._pread(1, known.offset - 1) != b"\n":
            self._cutter.skip_line()  # which is overlong
        self._take_fingerprint()
        self.resumed = known
        return True

    def begins_as(self, known: ReadUpTo) -> bool:
        """Whether it begins as a file did that was read up to a position."""
        return known.begins(self._pread(known.fingerprint_bytes, 0))

    @property
    def read_up_to(self) -> ReadUpTo:
        """The position up to which lines were returned, for a later reading."""
        known = self._read_up_to
        now = (self.path, len(self._fingerprint), self._cutter.offset, self._modified_ns)
        if known is None or (known.path, known.fingerprint_bytes, known.offset, known.modified_ns) != now:
            path, size, offset, modified_ns = now
            known = ReadUpTo(path, self.identity, size, digest(self._fingerprint), offset, modified_ns)
            self._read_up_to = known
        return known

    def position_by_content(self) -> ReadUpTo:
        """Returns `read_up_to` with all that is there of the beginning: it tells the file from others best."""
        first = self.head()
        return replace(self.read_up_to, fingerprint_bytes=len(first), fingerprint=digest(first))

    @property
    def size(self) -> int:
        """The size at the last look."""
        return self._size

    @property
    def is_deleted(self) -> bool:
        """Whether it has no name any more, anywhere."""
        return self.stat().st_nlink == 0

    def count_unread(self) -> tuple[int, int]:
        """The numbers of lines and bytes not returned yet. Reads them."""
        lines, start = 0, self._cutter.offset
        at = start
        while piece := self._pread(_COUNTED_BYTES, at):
            lines += piece.count(b"\n")
            at += len(piece)
        return lines, at - start

    def look(self, status: os.stat_result, now: float) -> None:
        """Notices growth, truncation, and content that is no longer what was read."""
        if (status.st_size, status.st_mtime_ns) == (self._size, self._modified_ns):
            return
        before = CutOff(self.read_up_to, self._modified_ns, self._size)
        self._size, self._modified_ns, self.changed_at = status.st_size, status.st_mtime_ns, now
        if self._size < self._read_upto or not self._is_same():
            self.truncated += 1
            self.cut_off = before
            start = self._first_data()
            self._begin(start, start)

    def is_due(self, now: float) -> bool:
        """Whether there is something to `read`."""
        return self.is_behind or (self._held_since is not None and now >= self._held_since + OPEN_RECORD_S)

    def read(self, now: float) -> list[Block]:
        """The next whole lines, about `block_bytes` of them."""
        self._head.look(self._size)
        if self.form is None:
            self._read_upto = self._size
            return []
        start = self._cutter.offset
        piece = self._pread(self._block_end(start) - start, start)
        self.fetched += len(piece)
        self._read_upto = start + len(piece) if piece else self._size  # nothing: it is being truncated
        self._cutter.csv_quotes = self.form.quotes_span_lines
        blocks = self._cutter.cut_whole_lines(piece)
        rest = piece[self._cutter.offset - start :]
        if self._has_waited_enough(rest, bool(blocks), now):
            self._cutter.csv_quotes = False
            blocks += self._cutter.cut_whole_lines(rest)
        self.consumed += self._cutter.offset - start
        self._take_fingerprint()
        return blocks

    def _block_end(self, start: int) -> int:
        """The end of the bytes to read from an offset on, where a line ends if more follows: nothing of them is then
        copied, or read again."""
        end = start + max(self._block_bytes, self._line_bytes_max + 1)  # a line that is still open there is overlong
        if end >= self._size:
            return max(self._size, start)
        begin = max(start, end - _SEARCHED_BYTES)
        return begin + (self._pread(end - begin, begin).rfind(b"\n") + 1 or end - begin)

    def finish(self) -> list[Block]:
        """Returns the last line, which lacks its newline, when the file ends."""
        if self.form is None:
            return []
        piece = self._pread(self._line_bytes_max + 1, self._cutter.offset)
        return [*self._cutter.feed(piece), *self._cutter.finish()]

    def is_unchanged(self, now: float) -> bool:
        """Whether the file is unchanged; False if that takes waiting, as on a network file system."""
        if os.major(self.identity[0]) == 0 or self.gone_since is not None or self.is_due(now):
            return False
        status = self.stat_name()
        return status is not None and self._last_seen == (identity_of(status), status.st_size, status.st_mtime_ns)

    @property
    def _last_seen(self) -> tuple[Identity, int, int]:
        return self.identity, self._size, self._modified_ns

    def rename(self, path: str) -> None:
        """The file has another name."""
        if path != self.path:
            self.path = self._cutter.file = path

    def begins_like(self, first: bytes) -> bool:
        """Whether another file, of which these are the first FINGERPRINT_BYTES, begins as this one does, as far as
        that is known."""
        return bool(self._fingerprint) and first[: len(self._fingerprint)] == self._fingerprint

    def head(self) -> bytes:
        """Reads the beginning, by which the content is told from that of other files."""
        return self._pread(FINGERPRINT_BYTES, 0)

    @property
    def modified_ns(self) -> int:
        """The time of its last change at the last look."""
        return self._modified_ns

    def stat(self) -> os.stat_result:
        """The file's status, whatever its name is."""
        return os.fstat(self._descriptor)

    def stat_name(self) -> os.stat_result | None:
        """The status of the file that has its name now."""
        try:
            return os.stat(self.path)  # noqa: PTH116 (ten times a second for every file)
        except OSError:
            return None

    def close(self) -> None:
        os.close(self._descriptor)

    def _pread(self, size: int, offset: int) -> bytes:
        """Reads so many bytes of the content, from an offset; fewer at its end."""
        return os.pread(self._descriptor, size, offset)

    def _begin(self, offset: int, content_start: int = 0) -> None:
        self.began_at = offset
        self._cutter = BlockCutter(self.path, self._block_bytes, self._line_bytes_max, offset=offset)
        self._head = FormatProbe(self.path, self._pread, self._recognise, content_start)
        self._read_upto = offset
        self._fingerprint = b""
        self._read_up_to = None
        self._held_since = None

    def _first_data(self) -> int:
        """The offset of the first data: a writer that goes on at its old offset in a truncated file leaves a hole."""
        try:
            return os.lseek(self._descriptor, 0, os.SEEK_DATA)
        except OSError:  # no data at all, or a file system that does not know
            return 0

    def _line_start(self, size: int) -> int | None:
        """The start of the line that goes on at `size`; None if it is overlong."""
        end = size
        while end > 0 and size - end <= self._line_bytes_max:
            begin = max(0, end - _BACKWARD_BYTES)
            newline = self._pread(end - begin, begin).rfind(b"\n")
            if newline >= 0:
                return begin + newline + 1
            end = begin
        return None if end > 0 else 0

    def _has_waited_enough(self, rest: bytes, progress: bool, now: float) -> bool:
        """Whether the whole lines in `rest`, held back by an open quote, are to be returned as they are."""
        if b"\n" not in rest or self._read_upto < self._size:
            self._held_since = None
        elif progress or self._held_since is None:
            self._held_since = now
        elif now >= self._held_since + OPEN_RECORD_S:
            self._held_since = None
            return True
        return False

    def _is_same(self) -> bool:
        """Whether the file still begins as it did: one that was emptied and refilled may be larger than before."""
        return self._pread(len(self._fingerprint), 0) == self._fingerprint

    def _take_fingerprint(self) -> None:
        length = min(FINGERPRINT_BYTES, self._cutter.offset)
        if length > len(self._fingerprint):
            self._fingerprint = self._pread(length, 0)
