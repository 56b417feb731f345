"""Lists of revoked certificates outlive the agent: who was shut out stays out when it starts anew."""

from __future__ import annotations

from agent import log
from agent.daemon.data_directory import DataDirectory
from overlay import Identity, RevocationError, Revocations, revocation_lists_of


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
