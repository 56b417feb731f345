"""The identity an agent's configuration names, and what is wrong with it in the configuration's own terms."""

from __future__ import annotations

from agent.configuration.config import Config, ConfigError
from overlay import Identity, IdentityError


def load_identity(config: Config) -> Identity:
    """Reads certificate, key and authority. ConfigError with the place of the key that is to blame."""
    files = config.identity
    try:
        identity = Identity.load(files.ca, files.certificate, files.key, fleet=config.fleet)
    except IdentityError as error:
        raise ConfigError([f"{config.place('identity', error.part)}: {error}"]) from None
    if identity.name != config.name:
        reason = f"{config.name!r}, but the certificate {files.certificate} is that of {identity.name!r}"
        raise ConfigError([f"{config.place('name')}: {reason}"])
    return identity
