"""Watches the files of the agent's identity and of revoked certificates while the agent runs.

The files are checked every few seconds. When one has changed, all are read again, and taken only if they fit together:
certificates, keys and authorities are replaced under a running agent by new files in the place of the old ones, in any
order. Files that are refused are logged once and tried again: others may be on their way, or the certificate not be
valid yet.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import trio

from agent import log
from agent.configuration.config import Config, ConfigError
from agent.daemon.own_identity import load_identity, revocation_lists
from overlay import Identity, RevocationError, Transport

LOOK_S = 10.0
WARNED_BEFORE = timedelta(days=14)
WARNED_AGAIN = timedelta(days=1)
_Seen = tuple[tuple[int, ...] | None, ...]


class IdentityWatch:
    """Watches the files of one agent. `now` gives the time of day."""

    def __init__(
        self, config: Config, transport: Transport, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._config = config
        self._transport = transport
        self._now = now
        files = config.identity
        self._identity_files = [
            path for path in (files.ca, files.certificate, files.key, files.key_password_file) if path is not None
        ]
        self._list_files = [] if files.crl is None else [files.crl]
        self._identity_seen: _Seen | None = None
        self._lists_seen: _Seen | None = None
        self._complaint = ""
        self._warned_at: datetime | None = None

    async def run(self) -> None:
        """Checks the files until it is cancelled."""
        while True:
            self.look()
            await trio.sleep(LOOK_S)

    def look(self) -> None:
        """Takes new valid files, and warns of a certificate that is about to expire."""
        seen = _seen(self._identity_files)
        if seen != self._identity_seen and self._take_identity():
            self._identity_seen, self._complaint = seen, ""
            self._lists_seen = None  # another authority's may have been waiting
        seen = _seen(self._list_files)
        if seen != self._lists_seen:
            self._lists_seen = seen
            self._take_lists()
        self._warn()

    def _take_identity(self) -> bool:
        current = self._transport.admission.trust.identity
        try:
            identity = load_identity(self._config)
            if (identity.claims, identity.authorities) == (current.claims, current.authorities):
                return True
            self._transport.admission.use(identity)
        except (ConfigError, ValueError) as error:
            if str(error) != self._complaint:
                self._complaint = str(error)
                log.warn("new identity not taken", why=self._complaint)
            return False
        log.info("identity replaced", **_described(identity))
        self._warned_at = None
        return True

    def _take_lists(self) -> None:
        try:
            lists = revocation_lists(self._config)
        except ConfigError as error:
            log.warn("revocations not taken", why=str(error))
            return
        for found in lists:
            try:
                self._transport.admission.revoke(found)
            except RevocationError as error:
                log.warn("revocations not taken", why=f"{self._config.identity.crl}: {error}")

    def _warn(self) -> None:
        now = self._now()
        left = self._transport.admission.trust.identity.expires - now
        if left > WARNED_BEFORE or (self._warned_at is not None and now - self._warned_at < WARNED_AGAIN):
            return
        self._warned_at = now
        expires = f"{self._transport.admission.trust.identity.expires:%Y-%m-%d %H:%M} UTC"
        if left > timedelta():
            log.warn("certificate expires soon", expires=expires, days=left.days)
        else:
            log.warn("certificate has expired: peers refuse this agent", expires=expires)


def _described(identity: Identity) -> dict[str, object]:
    return {
        "serial": f"{identity.claims.serial:x}",
        "expires": f"{identity.expires:%Y-%m-%d %H:%M} UTC",
        "authorities": len(identity.authorities),
    }


def _seen(paths: list[Path]) -> _Seen:
    """Fingerprint of files that changes when one is written or replaced."""
    return tuple(map(_state, paths))


def _state(path: Path) -> tuple[int, ...] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
