"""The files an agent gets from its authority, in one folder: `ca.pem`, `agent.pem`, `agent.key`."""

from pathlib import Path

from cryptography import x509

from overlay.transport.identity.authority import Credentials, needs_password
from overlay.transport.identity.authority_directory import load_certificate
from overlay.transport.identity.authority_files import AuthorityError, check_free, read_bytes, replace


class AgentFiles:
    """One agent's folder. Every method may raise AuthorityError: one line that names the file and the fault."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._ca_file = directory / "ca.pem"
        self.certificate_file = directory / "agent.pem"
        self._key_file = directory / "agent.key"

    def check_free(self) -> None:
        """Check that none of the files exists already."""
        check_free(self._key_file, self.certificate_file)

    def check_protection(self, key_password: bytes | None) -> None:
        """Check that an encrypted key is not replaced by an unencrypted one."""
        if key_password is None and self._key_file.exists() and needs_password(self._key_file):
            raise AuthorityError(f"{self._key_file}: is protected by a password: give --key-password-file")

    def certificate(self) -> x509.Certificate:
        """Return the agent's certificate."""
        return load_certificate(self.certificate_file)

    def save(self, credentials: Credentials, authority_pem: bytes) -> None:
        """Write all three files."""
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise AuthorityError(f"{self._directory}: {error.strerror}") from error
        credentials.save(self.certificate_file, self._key_file)
        replace(self._ca_file, authority_pem, 0o644)

    def replace(self, credentials: Credentials, authority_pem: bytes) -> None:
        """Replace certificate and key; add the authority if it is another one."""
        known = read_bytes(self._ca_file) if self._ca_file.exists() else b""
        if authority_pem.strip() not in known:
            replace(self._ca_file, known + authority_pem, 0o644)
        replace(self._key_file, credentials.key_pem, 0o600)
        replace(self.certificate_file, credentials.certificate_pem, 0o644)
