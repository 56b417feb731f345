"""Reads the files of a stream as they are now, from their first to their last byte, and then ends."""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from typing import Generic

from agent.sources.blocks import BLOCK_BYTES, LINE_BYTES_MAX, Block, BlockCutter, cut_in_steps
from agent.sources.errors import SourceError
from agent.sources.faults import Faults
from agent.sources.file.files import OpenedFile
from agent.sources.file.finding import FILES_MAX, find_files, reason_of
from agent.sources.reader import F, ReaderStatistics, Recognise, SourceBlock, SourcePart

POLL_BYTES = 4 << 20


class BoundedReader(Generic[F]):
    """The lines of all files that match, as they are at the first poll: see `StreamReader`.

    Files are read one after the other in the order of their names, up to the size they have at the start; a last line
    without newline is a line. Compressed ones are read as they are. All are opened at once, so that none gets lost
    when it is renamed or deleted meanwhile.
    """

    def __init__(
        self,
        patterns: Sequence[str],
        recognise: Recognise[F],
        *,
        block_bytes: int = BLOCK_BYTES,
        line_bytes_max: int = LINE_BYTES_MAX,
        poll_bytes: int = POLL_BYTES,
        files_max: int = FILES_MAX,
    ) -> None:
        self._patterns = tuple(patterns)
        self._recognise = recognise
        self._block_bytes, self._line_bytes_max = block_bytes, line_bytes_max
        self._poll_bytes, self._files_max = poll_bytes, files_max
        self._waiting: deque[tuple[OpenedFile, int]] = deque()  # with their descriptors
        self._steps = self._read_all()
        self._ended = False
        self._log: SourcePart | None = None
        self._standing: dict[str, str] = {}
        self._faults = Faults()
        self._statistics = ReaderStatistics()

    @property
    def at_end(self) -> bool:
        return self._ended

    def behind(self) -> Sequence[SourcePart]:
        """The file that is being read; the others have not begun."""
        return [] if self._log is None or self._ended else [self._log]

    def poll(self, now: float) -> list[SourceBlock[F]]:  # noqa: ARG002 (nothing here takes time)
        """The next blocks, from about `poll_bytes` of content."""
        pieces: list[SourceBlock[F]] = []
        budget = self._poll_bytes
        while budget > 0 and not self._ended:
            step = next(self._steps, None)
            if step is None:
                self._ended = True
                break
            content_bytes, found = step
            budget -= content_bytes
            pieces += found
        return pieces

    def is_quiet(self, now: float) -> bool:  # noqa: ARG002 (there is always more, up to the end)
        return False

    def faults(self) -> list[str]:
        return self._faults.drain()

    def statistics(self) -> ReaderStatistics:
        return replace(self._statistics, unreadable=len(self._faults))

    def close(self) -> None:
        self._steps.close()
        self._ended = True

    def _read_all(self) -> Generator[tuple[int, list[SourceBlock[F]]], None, None]:
        """Reads all files in small steps: bytes of content, and the blocks they completed."""
        try:
            self._open_all()
            while self._waiting:
                file, descriptor = self._waiting[0]
                yield from self._read(file)
                os.close(descriptor)
                self._waiting.popleft()
        finally:
            for _, descriptor in self._waiting:
                os.close(descriptor)
            self._waiting.clear()

    def _open_all(self) -> None:
        found = find_files(self._patterns)
        files = list(found.files.values())
        self._standing.update(found.refused)
        if not files and not found.refused:
            self._standing[" ".join(self._patterns)] = "matches no file"
        if len(files) > self._files_max:
            what = f"matches {len(files):,} files: only the first {self._files_max:,} are read"
            self._standing[" ".join(self._patterns)] = what
        for file in files[: self._files_max]:
            try:
                descriptor = os.open(file.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK)
            except OSError as error:
                self._standing[file.path] = reason_of(error)
                continue
            status = os.fstat(descriptor)
            if stat.S_ISREG(status.st_mode):
                self._waiting.append((OpenedFile(file.path, descriptor, status.st_size), descriptor))
            else:  # it has just become something else
                os.close(descriptor)
        self._statistics = replace(self._statistics, files=len(self._waiting))
        self._faults.update(self._standing)

    def _read(self, file: OpenedFile) -> Iterator[tuple[int, list[SourceBlock[F]]]]:
        try:
            form = self._recognise(file.head(), file.file)
        except SourceError as error:
            self._standing[file.file] = error.what
            self._faults.update(self._standing)
            return
        log = self._log = SourcePart(file.file)
        before = self._statistics.bytes_read
        try:
            for content_bytes, blocks in self._steps_of(file, form):
                self._statistics = replace(self._statistics, bytes_read=before + file.progress.bytes_read)
                yield content_bytes, [SourceBlock(log, block, form) for block in blocks]
        except SourceError as error:
            self._faults.report(file.file, error.what)
            self._statistics = replace(self._statistics, broken=self._statistics.broken + 1)

    def _steps_of(self, file: OpenedFile, form: F) -> Iterator[tuple[int, list[Block]]]:
        """Bytes of content, and the blocks in them."""
        if form.quotes_span_lines or not file.is_plain():
            quotes = form.quotes_span_lines
            cutter = BlockCutter(file.file, self._block_bytes, self._line_bytes_max, csv_quotes=quotes)
            yield from cut_in_steps(file.content(), cutter)
            return
        before = 0
        for reading in file.readings(block_bytes=self._block_bytes, line_bytes_max=self._line_bytes_max):
            yield file.progress.bytes_read - before, reading()
            before = file.progress.bytes_read
