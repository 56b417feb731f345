"""A creator's files, in one folder: `creator.key` and `creator.pub`, made by the creator, and `creator.pem`, the
certificate that the fleet's authority issues for `creator.pub`.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key

from overlay.transport.identity.authority import key_pem, load_key
from overlay.transport.identity.authority_directory import load_certificate
from overlay.transport.identity.authority_files import AuthorityError, check_free, read_bytes, write_new
from overlay.transport.identity.claims import checked_name
from overlay.transport.identity.creator_certificates import read_creator
from overlay.transport.identity.creator_claims import CreatorClaims, UntrustedCreatorError
from overlay.transport.identity.creators import CERTIFICATE_BYTES_MAX, check_times

PUBLIC_FILE_BYTES_MAX = 4096
_PRIVATE = b"PRIVATE KEY-----"


@dataclass(frozen=True, slots=True)
class Creator:
    """A creator of jobs, with the key to sign for them."""

    claims: CreatorClaims
    certificate: bytes
    """DER, sent along with signed data."""
    _key: Ed25519PrivateKey = field(repr=False)

    @property
    def name(self) -> str:
        """The creator's name in the certificate."""
        return self.claims.name

    @property
    def fleet(self) -> str:
        """The fleet whose authority trusts the creator."""
        return self.claims.fleet

    @property
    def public_key(self) -> bytes:
        """Ed25519, 32 bytes."""
        return self.claims.public_key

    def sign(self, payload: bytes) -> bytes:
        """Return the signature, 64 bytes."""
        return self._key.sign(payload)


class CreatorFiles:
    """One creator's folder. Every method may raise AuthorityError: one line that names the file and the fault."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.key_file = directory / "creator.key"
        self.public_file = directory / "creator.pub"
        self.certificate_file = directory / "creator.pem"

    def create(self, name: str | None, password: bytes | None) -> None:
        """Create a key, encrypted if there is a password, and write it with its public half.

        The name is written in front of the public key, for people. ValueError for an invalid name. An existing
        creator's files are not overwritten.
        """
        label = "" if name is None else f"creator: {checked_name(name, 'a creator')}\n"
        check_free(self.key_file, self.public_file, self.certificate_file)
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise AuthorityError(f"{self._directory}: {error.strerror}") from error
        key = Ed25519PrivateKey.generate()
        public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        write_new(self.key_file, key_pem(key, password), 0o600)
        write_new(self.public_file, label.encode() + public, 0o644)

    def load(self, password: bytes | None) -> Creator:
        """Load key and certificate, which must match and be valid now."""
        if not self.key_file.exists():
            raise AuthorityError(f"{self.key_file}: there is no creator's key: elf creator init makes one")
        key = load_key(self.key_file, password)
        if not isinstance(key, Ed25519PrivateKey):
            raise AuthorityError(f"{self.key_file}: not a creator's key: it is no Ed25519 key")
        certificate = self._certificate()
        try:
            claims = read_creator(certificate)
            check_times(claims, datetime.now(UTC).timestamp())
        except UntrustedCreatorError as error:
            raise AuthorityError(f"{self.certificate_file}: {error}") from error
        if key.public_key().public_bytes_raw() != claims.public_key:
            raise AuthorityError(f"{self.key_file}: does not belong to {self.certificate_file}")
        return Creator(claims, certificate.public_bytes(Encoding.DER), key)

    def _certificate(self) -> x509.Certificate:
        if not self.certificate_file.exists():
            raise AuthorityError(
                f"{self.certificate_file}: there is no certificate: put the one here that elf creator trust makes of "
                f"{self.public_file.name}, where the fleet's authority is"
            )
        certificate = load_certificate(self.certificate_file)
        if len(certificate.public_bytes(Encoding.DER)) > CERTIFICATE_BYTES_MAX:
            raise AuthorityError(f"{self.certificate_file}: not a creator's certificate: longer than they are")
        return certificate


def read_public_key(path: Path) -> bytes:
    """Return the Ed25519 public key (32 bytes) in a file (PEM); AuthorityError when it contains none."""
    content = read_bytes(path)
    if _PRIVATE in content:
        raise AuthorityError(f"{path}: a private key: its owner keeps it; creator.pub, beside it, is what is needed")
    try:
        if len(content) > PUBLIC_FILE_BYTES_MAX:
            raise ValueError("too long")
        key = load_pem_public_key(content)
    except ValueError as error:
        raise AuthorityError(f"{path}: not a public key (PEM): elf creator init makes one, creator.pub") from error
    if not isinstance(key, Ed25519PublicKey):
        raise AuthorityError(f"{path}: not an Ed25519 key: elf creator init makes one, creator.pub")
    return key.public_bytes_raw()
