"""Authorizes jobs that have a creator, who must be trusted and must have signed them (DESIGN §8)."""

from __future__ import annotations

import hashlib
from typing import Protocol

from agent.access.owners import is_same_owner, shown_owner
from agent.runtime.model.bundle import Bundle, Signature
from overlay import Id, app_id

STOP = hashlib.sha256(b"stop").digest()
"""Digest that a creator signs in place of a function's to stop the job."""
NOBODYS = "a job of this name that is somebody's needs its creator's signature"


class NotAuthorizedError(Exception):
    """Explains in one line why a signature does not authorize a job."""


class Creators(Protocol):
    """Checks signatures against the creators that the fleet trusts now."""

    def check(self, app: Id, name: str, seal: Signature, function: bytes, wall_ms: int) -> str:
        """Returns the creator's name. Raises NotAuthorizedError unless they are trusted, own the app and signed it."""
        ...


class NoCreators:
    """Trusts nobody: for agents that run no jobs of creators."""

    def check(self, app: Id, name: str, seal: Signature, function: bytes, wall_ms: int) -> str:  # noqa: ARG002
        raise NotAuthorizedError("this agent trusts no creators")


def check_owner(owner: str, by: str) -> None:
    """Checks that a job's owner is the one who asks; "" is somebody who may change anybody's jobs.

    Raises NotAuthorizedError.
    """
    if by and not is_same_owner(owner, by):
        raise NotAuthorizedError(f"it is {shown_owner(owner)}'s, and {shown_owner(by)} has no right to operate it")


def creator_of(creators: Creators, app: Id, name: str, bundle: Bundle | None, wall_ms: int) -> str:
    """Returns the creator of a job, "" for none. Raises NotAuthorizedError if its creator has not signed the bundle."""
    if bundle is None:
        if app != app_id(name, b""):
            raise NotAuthorizedError(NOBODYS)
        return ""
    return creators.check(app, name, bundle.seal, bundle.contents.digest(), wall_ms)
