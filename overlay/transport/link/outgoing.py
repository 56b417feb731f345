"""Chooses the frames to send over a link: short payloads before long ones, within the peer's credit. No I/O.

Long payloads are sent in pieces, between which short ones pass. When short ones never cease, a piece is sent after
every 64 KiB of them. Payloads leave the queues only when written, so what a broken link has not taken can go another
way.
"""

from typing import Literal

from overlay.transport.link.compression import compressed
from overlay.transport.link.framing import CREDIT, HEADER, LENGTH, PIECE_BYTES_MAX, FrameKind, FrameWriter
from overlay.transport.link.incoming import BULK_WINDOW_BYTES, URGENT_WINDOW_BYTES
from overlay.transport.link.refusals import ViolationError
from overlay.transport.link.send_queues import SendQueues

PIECE_BYTES = PIECE_BYTES_MAX - 2 * HEADER.size - LENGTH.size
"""Length of a piece: with the opening before the first, it fills four TLS records."""

Written = Literal["", "urgent", "bulk", "piece"]
"""Kind of the last frame, which determines what `written` does."""


class Outgoing:
    """One link's sending end. Call `next_frame` until it returns nothing, and `written` after each is written."""

    __slots__ = ("_bulk_credit", "_compress", "_credit_to_give", "_offset", "_shrinks", "_since_piece", "_under_way",
                 "_urgent_credit", "_writer", "bulk_written", "control", "messages", "queues",
                 "urgent_written")  # fmt: skip

    def __init__(self, writer: FrameWriter, *, compress: bool) -> None:
        self.queues: SendQueues | None = None
        self.control: list[FrameKind] = []
        """Frames without a body, sent before all others; at most one of each kind."""
        self.messages = self.urgent_written = self.bulk_written = 0
        """Payloads sent completely; short ones; pieces of long ones."""
        self._writer = writer
        self._compress = compress
        self._urgent_credit = URGENT_WINDOW_BYTES
        self._bulk_credit = BULK_WINDOW_BYTES
        self._credit_to_give = (0, 0)
        self._under_way: Written = ""
        self._offset = 0
        """Bytes sent of the oldest long payload."""
        self._shrinks = compress
        self._since_piece = 0

    @property
    def is_mid_payload(self) -> bool:
        """Whether a long payload is partly sent."""
        return self._offset > 0

    def queue_control(self, kind: FrameKind) -> None:
        """Queue a frame without a body, ahead of all payloads."""
        if kind not in self.control:
            self.control.append(kind)

    def grant(self, urgent: int, bulk: int) -> None:
        """Grant the peer credit."""
        self._credit_to_give = (self._credit_to_give[0] + urgent, self._credit_to_give[1] + bulk)

    def add_credit(self, body: bytes) -> None:
        """Add credit granted by the peer; ViolationError when it exceeds the window."""
        urgent, bulk = CREDIT.unpack(body)
        self._urgent_credit += urgent
        self._bulk_credit += bulk
        if self._urgent_credit > URGENT_WINDOW_BYTES or self._bulk_credit > BULK_WINDOW_BYTES or not urgent + bulk:
            raise ViolationError("credit for nothing", f"{urgent} and {bulk} bytes")

    def next_frame(self, *, is_leaving: bool) -> bytes:
        """Return the next bytes to write, empty when there are none. When leaving, only a long payload already begun
        goes on.
        """
        if self.control:
            return self._writer.frame(self.control.pop(0))
        if self._credit_to_give != (0, 0):
            credit, self._credit_to_give = self._credit_to_give, (0, 0)
            return self._writer.frame(FrameKind.CREDIT, CREDIT.pack(*credit))
        queues = self.queues
        if queues is None:
            return b""
        may_begin = self.is_mid_payload or not is_leaving
        has_piece = bool(queues.bulk) and may_begin and self._has_bulk_credit(queues)
        if queues.urgent and may_begin and not (has_piece and self._since_piece > PIECE_BYTES):
            payload = queues.urgent.oldest
            size = len(payload) + HEADER.size
            if size <= self._urgent_credit:
                self._urgent_credit -= size
                self._since_piece += size
                self._under_way = "urgent"
                return self._writer.frame(FrameKind.MESSAGE, payload)
        return self._next_piece(queues.bulk.oldest) if has_piece else b""

    def written(self) -> None:
        """Account for the last frame, which has been written."""
        under_way, self._under_way = self._under_way, ""
        if under_way and self.queues is not None:
            if under_way == "urgent":
                self.queues.urgent.popleft()
                self.urgent_written += 1
                self.messages += 1
            else:
                self.bulk_written += 1
                if under_way == "bulk":
                    self.queues.bulk.popleft()
                    self.messages += 1

    def _has_bulk_credit(self, queues: SendQueues) -> bool:
        """Whether there is credit for a whole piece, or the last one: small pieces would be wasteful."""
        return self._bulk_credit >= min(len(queues.bulk.oldest) - self._offset, PIECE_BYTES)

    def _next_piece(self, payload: bytes) -> bytes:
        start = b""
        if not self._offset:
            start = self._writer.frame(FrameKind.OPEN, LENGTH.pack(len(payload)))
            self._shrinks = self._compress
        piece = memoryview(payload)[self._offset : self._offset + PIECE_BYTES]
        self._since_piece = 0
        self._bulk_credit -= len(piece)
        self._offset += len(piece)
        self._under_way = "piece"
        if self._offset == len(payload):
            self._offset = 0
            self._under_way = "bulk"
        packed = compressed(piece) if self._shrinks else None
        if packed is None:
            self._shrinks = False
            return start + self._writer.frame(FrameKind.PIECE, piece)
        return start + self._writer.frame(FrameKind.ZSTD_PIECE, packed)
