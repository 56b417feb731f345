"""Reads secret files: private keys, and the passwords that protect them.

The rule is that of ssh, slightly wider: the owner's group may read a file (an agent may run as another user than the
owner of its files), nobody else may access it. A secret that everybody can read is refused instead of used with a
warning, because nobody reads the warnings of what works.
"""

import os
from pathlib import Path

PASSWORD_BYTES_MAX = 1023
"""Longest password that OpenSSL accepts."""
_SECRET_BYTES_MAX = 1 << 16
_EVERYBODY = 0o007


class SecretFileError(Exception):
    """A secret is unusable; one line with the reason, without the file's name."""


def read_secret(path: Path) -> bytes:
    """Read a file that only its owner and group may read; SecretFileError when it is unreadable or open to others."""
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode & 0o777
            if mode & _EVERYBODY:
                raise SecretFileError(
                    f"is open to everybody on this machine (mode {mode:03o}): its secret may be known; chmod o= it"
                )
            return file.read(_SECRET_BYTES_MAX)
    except OSError as error:
        raise SecretFileError(str(error.strerror)) from error


def read_password(path: Path) -> bytes:
    """Read the first line of a file; SecretFileError when it is empty or too long for a password."""
    password = read_secret(path).partition(b"\n")[0].removesuffix(b"\r")
    if not password:
        raise SecretFileError("its first line should be a password, and is empty")
    if len(password) > PASSWORD_BYTES_MAX:
        raise SecretFileError(f"its first line is no password: longer than {PASSWORD_BYTES_MAX} bytes")
    return password
