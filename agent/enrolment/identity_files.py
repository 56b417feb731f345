"""Puts a new certificate and its key in the place of the old ones; an end at any moment leaves a pair that fits.

Both are written beside the old ones first (`.next`), the certificate last: where it is there, both are, and whoever
reads the identity completes the change.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from overlay import replace_file

KEY_MODE, PUBLIC_MODE = 0o600, 0o644


class Renewed(Protocol):
    """A new certificate with its key, and the authority's certificate (PEM)."""

    @property
    def certificate_pem(self) -> bytes: ...
    @property
    def key_pem(self) -> bytes: ...
    @property
    def authority_pem(self) -> bytes: ...


def put_identity(new: Renewed, ca: Path, certificate: Path, key: Path) -> None:
    """Writes an identity. Authorities that are known stay known. AuthorityError if the disk does not take it."""
    known = ca.read_bytes() if ca.exists() else b""
    if new.authority_pem.strip() not in known:
        replace_file(ca, known + new.authority_pem, PUBLIC_MODE)
    replace_file(_beside(key), new.key_pem, KEY_MODE)
    replace_file(_beside(certificate), new.certificate_pem, PUBLIC_MODE)
    complete_renewal(certificate, key)


def complete_renewal(certificate: Path, key: Path) -> None:
    """Moves a new pair that is whole into its place; does nothing where there is none, or the folder is not to be
    written."""
    if not _beside(certificate).exists():
        return
    with suppress(OSError):
        with suppress(FileNotFoundError):
            _beside(key).replace(key)
        _beside(certificate).replace(certificate)


def own_like_folder(*paths: Path) -> None:
    """Gives files and folders to the owner of the folder above them, where the process may do that."""
    for path in paths:
        owner = path.parent.stat()
        with suppress(PermissionError):
            os.chown(path, owner.st_uid, owner.st_gid)


def _beside(path: Path) -> Path:
    return path.with_name(f"{path.name}.next")
