"""A creator's word for what a job shall be: the bundle that is submitted, and the seal that stops it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.creators.mandate import Mandate, signed_bytes
from agent.runtime.bundle import Bundle, Contents, Seal
from agent.runtime.creators import STOP
from overlay import app_id

if TYPE_CHECKING:
    from overlay import Creator, Id

YEAR_MS = 365 * 86_400_000
STOP_MS = 300_000
"""A word to stop a job holds for so long, so that it cannot be kept and said again."""


def sealed(
    creator: Creator, app: str, contents: Contents, wall_ms: int, after: tuple[int, bytes] = (0, b"")
) -> tuple[Id, Bundle]:
    """The job's app id, and what is submitted. `after`: counter and digest of the mandate it follows."""
    counter, predecessor = after
    mandate = Mandate(app_id(app, creator.public_key), counter + 1, predecessor, wall_ms + YEAR_MS, contents.digest())
    return mandate.app_id, Bundle(contents, _seal(creator, mandate))


def stopping(creator: Creator, app: str, wall_ms: int) -> tuple[Id, Seal]:
    """The creator's word that a job shall end."""
    mandate = Mandate(app_id(app, creator.public_key), 1, b"", wall_ms + STOP_MS, STOP)
    return mandate.app_id, _seal(creator, mandate)


def _seal(creator: Creator, mandate: Mandate) -> Seal:
    signature = creator.sign(signed_bytes(mandate, creator.fleet))
    return Seal(creator.certificate, mandate.counter, mandate.predecessor, mandate.expires_ms, signature)
