"""Loads the identity an agent's configuration names, and reports faults by the key at fault."""

from __future__ import annotations

from agent.configuration.config import Config, ConfigError
from agent.enrolment.identity_files import complete_renewal
from overlay import Identity, IdentityError, RevocationError, read_list, revocation_lists_of

LISTS_BYTES_MAX = 16 << 20


def load_identity(config: Config) -> Identity:
    """Reads certificate, key and authority. ConfigError with the position of the key at fault."""
    files = config.identity
    complete_renewal(files.certificate, files.key)
    try:
        identity = Identity.load(
            files.ca, files.certificate, files.key, key_password_file=files.key_password_file, fleet=config.fleet
        )
    except IdentityError as error:
        raise ConfigError([f"{config.place('identity', error.part)}: {error}"]) from None
    if identity.name != config.name:
        reason = f"{config.name!r}, but the certificate {files.certificate} is that of {identity.name!r}"
        raise ConfigError([f"{config.place('name')}: {reason}"])
    return identity


def check_revocations(config: Config, identity: Identity) -> None:
    """Checks the configured file of revoked certificates, if there is one. ConfigError if it cannot be used.

    A missing file or one of another authority is reported at the start, not when an agent is to be shut out.
    """
    for found in revocation_lists(config):
        try:
            read_list(found, identity.authorities)
        except RevocationError as error:
            raise ConfigError([f"{config.place('identity', 'crl')}: {config.identity.crl}: {error}"]) from None


def revocation_lists(config: Config) -> list[bytes]:
    """The lists in the configured file, unchecked; none if no file is configured."""
    path = config.identity.crl
    if path is None:
        return []
    where = f"{config.place('identity', 'crl')}: {path}"
    try:
        with path.open("rb") as file:
            content = file.read(LISTS_BYTES_MAX + 1)
    except OSError as error:
        raise ConfigError([f"{where}: {error.strerror}"]) from None
    if len(content) > LISTS_BYTES_MAX:
        raise ConfigError([f"{where}: is larger than {LISTS_BYTES_MAX:,} bytes"])
    lists = revocation_lists_of(content)
    if not lists:
        raise ConfigError([f"{where}: holds no list of revoked certificates (PEM)"])
    return lists
