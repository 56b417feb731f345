"""Decides whom an agent trusts: creators of jobs, and certificates that no list has revoked.

Revocation lists outlive the agent: a revoked certificate stays revoked after a restart.
"""

from __future__ import annotations

from agent import log
from agent.daemon.data_directory import DataDirectory
from agent.runtime.fleet.authorization import NotAuthorizedError
from agent.runtime.fleet.ended_mandates import EndedMandates
from agent.runtime.model.bundle import Signature
from agent.runtime.model.mandate import Mandate, signed_bytes
from overlay import (
    CreatorTrust,
    Id,
    Identity,
    RevocationError,
    Revocations,
    UntrustedCreatorError,
    is_app_id,
    revocation_lists_of,
)


class FleetCreators:
    """Trusts holders of a creator certificate of the fleet's authority; see `agent.runtime.fleet.authorization`."""

    def __init__(self, trust: CreatorTrust, fleet: str) -> None:
        self._trust = trust
        self._fleet = fleet

    def check(self, app: Id, name: str, seal: Signature, function: bytes, wall_ms: int) -> str:
        """The creator's name. Raises NotTheirsError unless they are trusted, own the app, and signed this function."""
        try:
            mandate = Mandate(app, seal.counter, seal.predecessor, seal.expires_ms, function)
            signed = signed_bytes(mandate, self._fleet)
            claims = self._trust.check(seal.certificate, signed, seal.signature, wall_ms / 1000)
        except (UntrustedCreatorError, ValueError) as error:
            raise NotAuthorizedError(str(error)) from None
        if not is_app_id(app, name, claims.public_key):
            raise NotAuthorizedError(f"{claims.name} has signed for another job than {name}")
        if seal.expires_ms < wall_ms:
            raise NotAuthorizedError(f"what {claims.name} has signed for {name} has expired: submit the job anew")
        return claims.name


def kept_ended_mandates(directory: DataDirectory) -> EndedMandates:
    """Loads the marks of jobs that their creators have stopped; later ones are saved."""
    ended = EndedMandates()
    if not ended.load(directory.ended_mandates()):
        log.warn("marks of stopped jobs are damaged: what was signed before may be started again")

    def keep(marks: bytes) -> None:
        try:
            directory.keep_ended_mandates(marks)
        except OSError as error:
            log.warn("marks of stopped jobs not kept for the next start", why=str(error))

    ended.save = keep
    return ended


def kept_revocations(directory: DataDirectory, identity: Identity) -> Revocations:
    """Loads the revocation lists of authorities that are still trusted; lists accepted later are saved."""
    kept = directory.revocations()

    def keep(lists: bytes) -> None:
        try:
            directory.keep_revocations(lists)
        except OSError as error:
            log.warn("revocations not kept for the next start", why=str(error))

    revocations = Revocations(identity.authorities, keep)
    for found in revocation_lists_of(kept):
        try:
            revocations.take(found)
        except RevocationError as error:
            log.info("kept revocations not used", why=str(error))
    return revocations
