"""An authority's folder: its certificate and key, the index of issued certificates, and the list of revoked ones.

| file | what |
|---|---|
| `ca.pem`, `ca.key` | the authority; the key is encrypted unless that was declined |
| `issued.jsonl` | a line of JSON for each certificate, written before it: none is issued unrecorded |
| `crl.pem` | the newest list of revoked certificates, an empty one at first |
| `lock` | held during changes, so that two operators cannot issue lists of the same number |

The number of a list is its creation time in seconds, or one more than the previous list's: so numbers keep growing
even if the folder was restored from a backup.
"""

import fcntl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import Encoding

from overlay.transport.identity.authority import (
    CERTIFICATE_FILE,
    KEY_FILE,
    Authority,
    Credentials,
    Revocation,
    certificate_uris,
    load_authority_certificate,
    needs_password,
)
from overlay.transport.identity.authority_files import AuthorityError, append_line, read_bytes, replace, write_new
from overlay.transport.identity.claims import AGENT_ROLE, CREATOR_ROLE, creator_id, read_uri
from overlay.transport.identity.revocation import LIST_BYTES_MAX, RevocationError, read_list
from overlay.wire.ids import format_id

INDEX_FILE = "issued.jsonl"
LIST_FILE = "crl.pem"
LOCK_FILE = "lock"
FORGOTTEN_AFTER = timedelta(days=1)
"""Grace after expiry before a revoked certificate is dropped from the list; tolerates clocks that are off by this
much.
"""


class Issued(msgspec.Struct, frozen=True):
    """A certificate as recorded in the index."""

    serial: str
    """Hexadecimal."""
    name: str
    node_id: str
    """An agent's place in the overlay, or the id of a creator's key."""
    role: str
    not_before: datetime
    expires: datetime

    @property
    def number(self) -> int:
        """The serial number."""
        return int(self.serial, 16)


_LINE: msgspec.json.Decoder[Issued] = msgspec.json.Decoder(Issued)


class AuthorityDirectory:
    """One authority's folder. Every method may raise AuthorityError: one line that names the file and the fault."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.certificate, self.fleet = load_authority_certificate(path / CERTIFICATE_FILE)

    @classmethod
    def create(cls, path: Path, authority: Authority, password: bytes | None) -> "AuthorityDirectory":
        """Save a new authority with an empty list, so that agents can be told where lists will come from."""
        authority.save(path, password)
        directory = cls(path)
        directory.revoke(authority, [], x509.ReasonFlags.unspecified)
        return directory

    @property
    def needs_password(self) -> bool:
        """Whether the key is encrypted."""
        return needs_password(self.path / KEY_FILE)

    def unlock(self, password: bytes | None) -> Authority:
        """Load the key."""
        return Authority.load(self.path, password)

    def issued(self) -> Sequence[Issued]:
        """Return the entries of the index, oldest first."""
        path = self.path / INDEX_FILE
        if not path.exists():
            return []
        found = []
        for number, line in enumerate(read_bytes(path).splitlines(), 1):
            try:
                found.append(_LINE.decode(line))
            except (msgspec.DecodeError, ValueError) as error:
                raise AuthorityError(f"{path}:{number}: not a line of an authority's index") from error
        return found

    def revoked(self) -> tuple[int, Sequence[Revocation]]:
        """Return the number of the newest list (0 if there is none yet) and its entries."""
        path = self.path / LIST_FILE
        if not path.exists():
            return 0, []
        content = read_bytes(path)
        try:
            checked = read_list(content, [self.certificate.public_bytes(Encoding.DER)])
        except RevocationError as error:
            raise AuthorityError(f"{path}: {error}") from error
        return checked.number, [Revocation.read(entry) for entry in x509.load_der_x509_crl(checked.der)]

    def issue(
        self,
        authority: Authority,
        name: str,
        *,
        node_id: int | None = None,
        days: float,
        key_password: bytes | None = None,
    ) -> Credentials:
        """Admit an agent as `Authority.issue` does, and record the certificate."""
        credentials = authority.issue(name, node_id=node_id, days=days, key_password=key_password)
        with self.locked():
            self._write_down(credentials.certificate_pem, name, AGENT_ROLE, credentials.node_id)
        return credentials

    def admit(
        self, authority: Authority, name: str, request: bytes, *, node_id: int | None = None, days: float
    ) -> tuple[bytes, int]:
        """Admit the holder of the key of a signing request (PEM), and record the certificate; return it with the id.

        ValueError for an invalid request or name.
        """
        pem, identifier = authority.admit(name, request, node_id=node_id, days=days)
        with self.locked():
            self._write_down(pem, name, AGENT_ROLE, identifier)
        return pem, identifier

    def trust(self, authority: Authority, name: str, public_key: bytes, *, days: float, out: Path) -> Issued:
        """Trust a creator as `Authority.trust` does; record the certificate and write it to a new file.

        A key has one name, and is not trusted again once it was revoked as compromised.
        """
        pem = authority.trust(name, public_key, days=days)
        identifier = creator_id(public_key)
        with self.locked():
            known = [one for one in self.issued() if one.node_id == format_id(identifier)]
            other = next((one.name for one in known if one.name != name), None)
            if other is not None:
                raise AuthorityError(f"{self.path}: that is the key of the creator {other}, not of {name}")
            compromised = {one.serial for one in self.revoked()[1] if one.reason is x509.ReasonFlags.key_compromise}
            if any(one.number in compromised for one in known):
                raise AuthorityError(
                    f"{self.path}: that key was revoked, as one that others know; {name} needs a new one"
                )
            line = self._write_down(pem, name, CREATOR_ROLE, identifier)
        write_new(out, pem, 0o644)
        return line

    def check_renewable(self, certificate: x509.Certificate, path: Path) -> tuple[str, int]:
        """Return name and id of an agent of this fleet whose certificate may be renewed.

        The certificate may be another authority's: so agents move to this one when it replaces the other.
        """
        fleet, role, node_id = _member(certificate, path)
        if fleet != self.fleet:
            raise AuthorityError(f"{path}: of fleet {fleet!r}, not {self.fleet!r}")
        if role != AGENT_ROLE:
            raise AuthorityError(f"{path}: not an agent's certificate: it is for a {role}")
        if certificate.serial_number in {one.serial for one in self.revoked()[1]}:
            raise AuthorityError(f"{path}: is revoked; issue a new one if the agent shall be admitted again")
        return common_name(certificate), node_id

    def certificates_of(self, who: str, role: str) -> Sequence[Issued]:
        """Return the valid certificates for a role: a member's by its name or id, or one by its serial number."""
        every = [one for one in self.issued() if one.role == role and who in (one.name, one.node_id, one.serial)]
        revoked = {one.serial for one in self.revoked()[1]}
        valid = [one for one in every if one.number not in revoked and one.expires > datetime.now(UTC)]
        if every and not valid:
            raise AuthorityError(f"{who}: has no certificate that is not revoked or expired already")
        ids = sorted({one.node_id for one in valid})
        if len(ids) > 1:
            raise AuthorityError(f"{who}: the name of {len(ids)} {role}s; say which by its id: {', '.join(ids)}")
        return valid

    def serial_of_file(self, path: Path) -> int:
        """Return the serial number of a certificate of this authority."""
        certificate = load_certificate(path)
        try:
            certificate.verify_directly_issued_by(self.certificate)
        except (ValueError, TypeError, InvalidSignature) as error:
            raise AuthorityError(f"{path}: was not issued by the authority {self.path}") from error
        return certificate.serial_number

    def revoke(self, authority: Authority, serials: Sequence[int], reason: x509.ReasonFlags) -> int:
        """Sign and write a list that includes these certificates; return its number."""
        now = datetime.now(UTC)
        with self.locked():
            last, revoked = self.revoked()
            known = {one.serial for one in revoked}
            again = [serial for serial in serials if serial in known]
            if again:
                raise AuthorityError(f"{self.path / LIST_FILE}: {again[0]:x} is revoked already")
            gone = {one.number for one in self.issued() if one.expires < now - FORGOTTEN_AFTER}
            entries = [one for one in revoked if one.serial not in gone]
            entries += [Revocation(serial, now, reason) for serial in serials]
            number = max(last + 1, int(now.timestamp()))
            pem = authority.revocation_list(number, entries)
            if len(x509.load_pem_x509_crl(pem).public_bytes(Encoding.DER)) > LIST_BYTES_MAX:
                raise AuthorityError(f"{self.path}: with {len(entries):,} revoked certificates make a new authority")
            replace(self.path / LIST_FILE, pem, 0o644)
        return number

    def _write_down(self, pem: bytes, name: str, role: str, identifier: int) -> Issued:
        certificate = x509.load_pem_x509_certificate(pem)
        line = Issued(
            serial=f"{certificate.serial_number:x}",
            name=name,
            node_id=format_id(identifier),
            role=role,
            not_before=certificate.not_valid_before_utc,
            expires=certificate.not_valid_after_utc,
        )
        append_line(self.path / INDEX_FILE, msgspec.json.encode(line))
        return line

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder's lock."""
        path = self.path / LOCK_FILE
        try:
            with path.open("ab") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                yield
        except OSError as error:
            raise AuthorityError(f"{path}: {error.strerror}") from error


def load_certificate(path: Path) -> x509.Certificate:
    """Read one certificate (PEM)."""
    try:
        return x509.load_pem_x509_certificate(read_bytes(path))
    except ValueError as error:
        raise AuthorityError(f"{path}: not a certificate (PEM)") from error


def common_name(certificate: x509.Certificate) -> str:
    """Return the name in a certificate."""
    names = certificate.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
    return str(names[0].value) if names else ""


def _member(certificate: x509.Certificate, path: Path) -> tuple[str, str, int]:
    try:
        return read_uri(certificate_uris(certificate))
    except (ValueError, x509.ExtensionNotFound) as error:
        raise AuthorityError(f"{path}: not an agent's certificate") from error
