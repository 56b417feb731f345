"""Reads the rest of a log out of the compressed file that it has become."""

from __future__ import annotations

import os
from contextlib import suppress

from agent.sources.blocks import Block
from agent.sources.file.compression import DamagedError
from agent.sources.file.expanded_content import ExpandedContent
from agent.sources.file.files import HEAD_BYTES
from agent.sources.file.followed_file import FINGERPRINT_BYTES, FollowedFile, ReadUpTo
from agent.sources.file.format_probe import FormatProbe
from agent.sources.reader import F

INCOMPLETE_S = 30.0
"""Delay after the last change of a compressed file that ends too soon before its rest is given up."""


class ExpandedFile(FollowedFile[F]):
    """A compressed file, read once, from a position in its content to its end; positions are those of the content.

    It is open at `descriptor`. `is_over`: all that can be read of it is. `loss`: why some of it cannot. A file that
    ends too soon may be about to be written; it is begun anew when it has grown.
    """

    def _prepare(self) -> None:
        self.is_over = False
        self.loss: str | None = None
        self._damage: DamagedError | None = None
        self._content = ExpandedContent(self._descriptor)
        self._compressed = (0, 0)
        self._waits = False
        self._is_probed = False
        self._may_be_amid_line = False
        self._beginning = b""

    @property
    def is_behind(self) -> bool:
        return self.trouble is None and not self.is_over and not self._waits

    def resume(self, known: ReadUpTo) -> bool:
        """Resumes an earlier reading, of this file or of the one it was made from. False if this is another file."""
        try:
            self._content.expand(FINGERPRINT_BYTES, keep_from=0)
        except DamagedError as error:
            self._damage = error
        self._beginning = self._pread(FINGERPRINT_BYTES, 0)
        if not self.begins_as(known):
            return False
        self._begin(known.offset)
        self._fingerprint = self._pread(known.fingerprint_bytes, 0)
        self._may_be_amid_line = known.offset > 0
        self.resumed = known
        return True

    def begins_as(self, known: ReadUpTo) -> bool:
        return known.begins(self._beginning)

    def look(self, status: os.stat_result, now: float) -> None:
        """Notices that more of the file has been written."""
        seen = status.st_size, status.st_mtime_ns
        if seen != self._compressed:
            self._compressed, self._modified_ns, self.changed_at = seen, status.st_mtime_ns, now
            if self._waits:
                self._waits, self._damage = False, None
                self._content.restart()
                self._begin_probe()

    def is_due(self, now: float) -> bool:
        return self.is_behind or (self._waits and now >= self.changed_at + INCOMPLETE_S)

    def is_unchanged(self, now: float) -> bool:
        return not self.is_due(now) and not self._waits

    @property
    def size(self) -> int:
        """The least size that the content can have, as far as it is known."""
        return self._content.end + self._content.unread_bytes

    def read(self, now: float) -> list[Block]:
        """The next whole lines. On the way to the first of them, content that was read before is passed over."""
        if self._damage is None:
            try:
                self._expand()
            except DamagedError as error:
                self._damage = error
        blocks = self._lines(now)
        if (self._damage is None and not self._content.is_whole) or self._read_upto < self._content.end:
            return blocks
        if self._damage is not None and self._damage.ends_early and now < self.changed_at + INCOMPLETE_S:
            self._waits = True
            return blocks
        return [*blocks, *self._end(now)]

    def count_unread(self) -> tuple[int, int]:
        lines, size = 0, self._cutter.offset
        with suppress(DamagedError):
            while not self._content.is_whole:
                start = max(size, self._content.end)
                self._content.expand(start + 1, keep_from=start)
                lines += self._pread(self._content.end - start, start).count(b"\n")
        return lines, max(0, self._content.end - size)

    def _expand(self) -> None:
        """Produces a bounded amount of content; of what lies before the next line, only the last byte is kept."""
        start = self._cutter.offset
        wanted = max(self._block_bytes, self._line_bytes_max + 1)
        if not self._is_probed:
            self._content.expand(HEAD_BYTES, keep_from=0)
        else:
            self.fetched += self._content.expand(start + wanted, keep_from=max(0, start - 1))

    def _lines(self, now: float) -> list[Block]:
        if not self._is_probed:
            self._probe()
        self._size = self._content.end
        start = self._cutter.offset
        if self._may_be_amid_line and self._size >= start:
            self._may_be_amid_line = False
            if self._pread(1, start - 1) != b"\n":
                self._cutter.skip_line()
        return super().read(now) if self._size > start else []

    def _begin_probe(self) -> None:
        if self.form is None:
            self._is_probed = False
            self._head = FormatProbe(self.path, self._pread, self._recognise)
        else:
            self._content.drop_head(FINGERPRINT_BYTES)

    def _probe(self) -> None:
        """Tells the format, once: the beginning of a file that is compressed does not change."""
        self._head.look(self._content.end)
        self._head.is_settled = self._is_probed = True
        self._beginning = self._beginning or self._pread(FINGERPRINT_BYTES, 0)
        self._content.drop_head(FINGERPRINT_BYTES)

    def _end(self, now: float) -> list[Block]:
        """Ends the reading; of a file that is whole, a last line without newline counts."""
        self.is_over, self._waits, self.changed_at = True, False, now
        if self._damage is not None:
            self.loss = f"{self._damage}: only {self._content.end:,} bytes of content could be read"
        elif self._content.end < self._cutter.offset:
            self.loss = f"holds {self._content.end:,} bytes: {self._cutter.offset:,} had been read"
        else:
            self.loss = self._head.fault
        return [] if self.loss else self.finish()

    def _pread(self, size: int, offset: int) -> bytes:
        return self._content.pread(size, offset)

    def _is_same(self) -> bool:
        return True
