"""What comes over a link: payloads of two streams, within the credit given for each. No input or output.

A sender may send as many bytes on a stream as it has credit for. It begins with a window and gets back what was taken
in, so the receiver never holds more for a link than it has agreed to:

- a short payload is taken in when it has been delivered;
- the pieces of a long payload of at most half a window are taken in when the whole has been delivered;
- those of a longer one as they come, once there is room for the whole of it (`assembly`), and not before.

Credit is given back half a window at a time. A sender that has no credit and sends, or that opens a second payload
before the first is whole, is none of ours.
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
    """One link's receiving end. `grant` is called with credit to give back: on the urgent and on the bulk stream."""

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
        """Account for a short payload; ViolationError past the credit. Call `message_taken` when it is delivered."""
        self._urgent_credit -= size + HEADER.size
        if self._urgent_credit < 0:
            raise ViolationError("over its credit", "on the urgent stream")

    def message_taken(self, size: int) -> None:
        """Take in a short payload of so many bytes."""
        self._urgent_taken += size + HEADER.size
        if self._urgent_taken >= URGENT_WINDOW_BYTES // 2:
            taken, self._urgent_taken = self._urgent_taken, 0
            self._urgent_credit += taken
            self._grant(taken, 0)

    def open(self, body: bytes) -> None:
        """Begin a long payload; ViolationError when one is open, or this one is longer than any."""
        (length,) = LENGTH.unpack(body)
        if self._body is not None:
            raise ViolationError("two payloads at once", f"another of {length} bytes")
        if not 0 < length <= PAYLOAD_BYTES_MAX:
            raise ViolationError("payload too long", f"{length} bytes, of {PAYLOAD_BYTES_MAX} at most")
        self._body, self._missing = io.BytesIO(), length
        if length > BULK_WINDOW_BYTES // 2:
            self._reservation = self._budget.enter(length, self._give_back)

    def piece(self, kind: int, body: Body) -> bytes | None:
        """Add a piece; return the payload when it is whole. ViolationError for what no agent sends.

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
        whole, self._body = self._body.getvalue(), None  # BytesIO gives its bytes without a copy
        return whole

    def payload_taken(self) -> None:
        """Take in the long payload that was delivered."""
        self.close()
        self._give_back()

    def close(self) -> None:
        """Let go of what is held: nothing comes any more, or a payload has been taken in."""
        self._body = None
        if self._reservation is not None:
            reservation, self._reservation = self._reservation, None
            reservation.leave()

    @property
    def is_mid_payload(self) -> bool:
        """Whether a long payload has been begun and is not whole."""
        return self._body is not None

    @property
    def held_bytes(self) -> int:
        """How much has come of a long payload that is not whole."""
        return self._body.tell() if self._body is not None else 0

    @property
    def reservation(self) -> Reservation | None:
        """Where the payload that is coming in has its room, if it needs any."""
        return self._reservation

    def _give_back(self) -> None:
        may_take = self._body is None or (self._reservation is not None and self._reservation.has_room)
        if may_take and self._bulk_taken >= BULK_WINDOW_BYTES // 2:
            taken, self._bulk_taken = self._bulk_taken, 0
            self._bulk_credit += taken
            self._grant(0, taken)
