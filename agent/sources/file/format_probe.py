"""Tells the format of a file whose first lines may not be written yet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic

from agent.sources.blocks import LINE_BYTES_MAX, Block, BlockCutter
from agent.sources.errors import SourceError
from agent.sources.file.files import HEAD_BYTES
from agent.sources.reader import F, Form, Recognise

_SMALL_BYTES = 4096
_PIECE_BYTES = HEAD_BYTES + LINE_BYTES_MAX  # so that no line stays open in it unless it is overlong
_PIECES_MAX = 16  # read in search of a first line, past overlong ones
_BLANKS = b"\0 \t\r\n"


class FormatProbe(Generic[F]):
    """Finds the format of an open file, and tries again while its beginning grows.

    `form` is None until the file fits a format. It may still change: a time field may show up, or a first line turn out
    to be a stray one. `fault` says why no format fits so far; `is_settled`: nothing will change any more. `pread` reads
    the file: so many bytes, from an offset.
    """

    def __init__(self, path: str, pread: Callable[[int, int], bytes], recognise: Recognise[F], start: int = 0) -> None:
        self.form: F | None = None
        self.fault: str | None = None
        self.is_settled = False
        self._path = path
        self._pread = pread
        self._recognise = recognise
        self._start = start  # of the content, past a hole
        self._tried_bytes = 0

    def look(self, size: int) -> None:
        """Tries again if the file has grown enough since the last time. May raise OSError."""
        length, tried = size - self._start, self._tried_bytes
        crosses_limit = tried < HEAD_BYTES <= length
        if self.is_settled or length <= tried or (_SMALL_BYTES < length < 2 * tried and not crosses_limit):
            return
        self._tried_bytes = length
        head = self._first_lines()
        if head is not None:
            self._try(head.data)
            self.is_settled |= size - head.origin.offset >= HEAD_BYTES

    def _try(self, head: bytes) -> None:
        try:
            form = self._recognise(head, self._path)
        except SourceError as error:
            self.fault = None if self.form else error.what
            return
        if form.header is None or (form.time_field is None and _is_bare_header(head, form)):
            return
        self.form, self.fault = form, None
        self.is_settled = form.time_field is not None

    def _first_lines(self) -> Block | None:
        """The first whole lines that are not blank or overlong, about HEAD_BYTES of them."""
        cutter = BlockCutter(self._path, HEAD_BYTES, offset=self._start)
        for _ in range(_PIECES_MAX):
            piece = self._pread(_PIECE_BYTES, cutter.offset)
            for block in cutter.cut_whole_lines(piece):
                if block.data.strip(_BLANKS):
                    return block
            if len(piece) < _PIECE_BYTES:
                break
        return None


def _is_bare_header(head: bytes, form: Form) -> bool:
    """Whether there is no row yet that could show which column has the time."""
    return form.has_header_line and b"\n" not in head.strip()
