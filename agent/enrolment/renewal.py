"""Renews the certificate of a running agent before it ends, by the certificate itself."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import trio

from agent import log
from agent.configuration.config import IdentityConfig
from agent.enrolment.identity_files import put_identity
from overlay import AuthorityError, Identity, RandomSource, SecretFileError

LEFT_SHARE = 1 / 3
"""Share of a certificate's time that is left when it is renewed."""
LOOK_S = 3600.0
"""Longest interval between two looks and, where the authority is not reachable, between two attempts."""
LOOKS = 60
"""Looks in the time of a certificate that is good for less than that many hours."""
WARNED_AGAIN = timedelta(days=1)


class Renewal:
    """Renews one agent's certificate, if its configuration names a service. `identity` is the one in use.

    While the service is not reachable nothing changes: the agent works until its certificate ends, and asks again.
    """

    def __init__(
        self,
        files: IdentityConfig,
        identity: Callable[[], Identity],
        random: RandomSource,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._files = files
        self._identity = identity
        self._random = random
        self._now = now
        self._warned_at: datetime | None = None

    async def run(self) -> None:
        """Looks until it is cancelled; without a service it returns at once."""
        while self._files.authority is not None:
            await self.look()
            interval_s = min(LOOK_S, self._lifetime_s / LOOKS)
            await trio.sleep(interval_s * (0.75 + 0.5 * self._random.random()))

    @property
    def _lifetime_s(self) -> float:
        claims = self._identity().claims
        return claims.expires_at - claims.starts_at

    async def look(self) -> None:
        """Renews the certificate if it is time for that."""
        left_s = self._identity().claims.expires_at - self._now().timestamp()
        if left_s > LEFT_SHARE * self._lifetime_s:
            return
        fault = await trio.to_thread.run_sync(self._renew, abandon_on_cancel=True)
        if fault is None:
            self._warned_at = None
            log.info("certificate renewed", authority=self._files.authority)
        elif self._warned_at is None or self._now() - self._warned_at >= WARNED_AGAIN:
            self._warned_at = self._now()
            expires = f"{self._identity().expires:%Y-%m-%d %H:%M} UTC"
            log.warn("certificate not renewed, trying again", why=fault, expires=expires)

    def _renew(self) -> str | None:
        """Asks for a certificate and puts it in its place, where the agent finds it; the fault, if there is one."""
        from agent.enrolment.client import EnrolmentError, renew  # here: it loads what signs and reads certificates

        files = self._files
        assert files.authority is not None
        try:
            new = renew(files.authority, files.ca, files.certificate, files.key, files.key_password_file)
            put_identity(new, files.ca, files.certificate, files.key)
        except (EnrolmentError, AuthorityError, SecretFileError, OSError) as error:
            return str(error)
        return None
