"""Receives payloads on two streams of a link, within the credit granted for each. No input or output.

A sender may send as many bytes on a stream as it has credit for. It begins with a window and regains credit for what
was consumed, so the receiver never holds more for a link than it has agreed to:

- a short payload is consumed when it has been delivered;
- the pieces of a long payload of at most half a window are consumed when the whole has been delivered;
- the pieces of a longer one are consumed on arrival, once its reservation (`assembly`) is granted, not before.

Credit is returned half a window at a time. A sender that exceeds its credit, or that opens a second payload before the
first is complete, violates the protocol.
"""

import io
from collections.abc import Callable

from overlay.transport.link.assembly import AssemblyBudget, Reservation
from overlay.transport.link.compression import BombError, decompressed
from overlay.transport.link.framing import HEADER, LENGTH, PAYLOAD_BYTES_MAX, Body, FrameKind
from overlay.transport.link.refusals import ViolationError

URGENT_WINDOW_BYTES = 1 << 20
BULK_WINDOW_BYTES = 1 << 19


class Incoming:
    """One link's receiving end. `grant` is called with credit to return, on the urgent and on the bulk stream."""

    __slots__ = (
        "_body",
        "_budget",
        "_bulk_credit",
        "_bulk_taken",
        "_grant",
        "_missing",
        "_reservation",
        "_urgent_credit",
        "_urgent_taken",
    )  # fmt: skip

    def __init__(self, budget: AssemblyBudget, grant: Callable[[int, int], None]) -> None:
        self._budget = budget
        self._grant = grant
        self._urgent_credit = URGENT_WINDOW_BYTES
        self._urgent_taken = 0
        self._bulk_credit = BULK_WINDOW_BYTES
        self._bulk_taken = 0
        self._body: io.BytesIO | None = None
        self._missing = 0
        self._reservation: Reservation | None = None

    def message(self, size: int) -> None:
        """Account for a short payload; ViolationError beyond the credit. Call `message_taken` when it is delivered."""
        self._urgent_credit -= size + HEADER.size
        if self._urgent_credit < 0:
            raise ViolationError("over its credit", "on the urgent stream")

    def message_taken(self, size: int) -> None:
        """Account for the delivery of a short payload of this size."""
        self._urgent_taken += size + HEADER.size
        if self._urgent_taken >= URGENT_WINDOW_BYTES // 2:
            taken, self._urgent_taken = self._urgent_taken, 0
            self._urgent_credit += taken
            self._grant(taken, 0)

    def open(self, body: bytes) -> None:
        """Begin a long payload; ViolationError when one is open or the length is over the limit."""
        (length,) = LENGTH.unpack(body)
        if self._body is not None:
            raise ViolationError("two payloads at once", f"another of {length} bytes")
        if not 0 < length <= PAYLOAD_BYTES_MAX:
            raise ViolationError("payload too long", f"{length} bytes, of {PAYLOAD_BYTES_MAX} at most")
        self._body, self._missing = io.BytesIO(), length
        if length > BULK_WINDOW_BYTES // 2:
            self._reservation = self._budget.enter(length, self._give_back)

    def piece(self, kind: int, body: Body) -> bytes | None:
        """Add a piece; return the payload when it is complete. ViolationError for what no agent sends.

        Call `payload_taken` when the payload is delivered.
        """
        if self._body is None:
            raise ViolationError("piece of nothing", f"{len(body)} bytes")
        if kind == FrameKind.ZSTD_PIECE:
            try:
                body = decompressed(body)
            except BombError as error:
                raise ViolationError("decompression bomb", str(error)) from error
        size = len(body)
        self._missing -= size
        if self._missing < 0:
            raise ViolationError("payload too long", "more pieces than it said")
        self._bulk_credit -= size
        if self._bulk_credit < 0:
            raise ViolationError("over its credit", "on the bulk stream")
        self._body.write(body)
        self._bulk_taken += size
        if self._reservation is not None:
            self._reservation.held += size
        if self._missing:
            self._give_back()
            return None
        whole, self._body = self._body.getvalue(), None  # BytesIO returns its bytes without a copy
        return whole

    def payload_taken(self) -> None:
        """Account for the delivery of the long payload."""
        self.close()
        self._give_back()

    def close(self) -> None:
        """Release the open payload and its reservation."""
        self._body = None
        if self._reservation is not None:
            reservation, self._reservation = self._reservation, None
            reservation.leave()

    @property
    def is_mid_payload(self) -> bool:
        """Whether a long payload is open and incomplete."""
        return self._body is not None

    @property
    def held_bytes(self) -> int:
        """Bytes received of the open long payload."""
        return self._body.tell() if self._body is not None else 0

    @property
    def reservation(self) -> Reservation | None:
        """The open payload's reservation, if it needs one."""
        return self._reservation

    def _give_back(self) -> None:
        may_take = self._body is None or (self._reservation is not None and self._reservation.has_room)
        if may_take and self._bulk_taken >= BULK_WINDOW_BYTES // 2:
            taken, self._bulk_taken = self._bulk_taken, 0
            self._bulk_credit += taken
            self._grant(0, taken)
