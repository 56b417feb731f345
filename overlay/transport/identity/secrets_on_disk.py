"""Files that hold secrets: private keys, and the passwords that protect them.

Their rule is that of ssh, a little wider: the owner's group may read them (an agent may run as another user than the
one its files belong to), nobody else may do anything with them. A secret everybody can read is refused, not used with
a warning: nobody reads the warnings of what works.
"""

import os
from pathlib import Path

PASSWORD_BYTES_MAX = 1023
"""What OpenSSL takes."""
_SECRET_BYTES_MAX = 1 << 16
_EVERYBODY = 0o007


class SecretFileError(Exception):
    """A secret cannot be used; one line that says why, without the file's name."""


def read_secret(path: Path) -> bytes:
    """Read a file only its owner and their group may read; SecretFileError when that fails or it is open to others."""
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
    """Read the first line of a file; SecretFileError when there is none, or it is too long for a password."""
    password = read_secret(path).partition(b"\n")[0].removesuffix(b"\r")
    if not password:
        raise SecretFileError("its first line should be a password, and is empty")
    if len(password) > PASSWORD_BYTES_MAX:
        raise SecretFileError(f"its first line is no password: longer than {PASSWORD_BYTES_MAX} bytes")
    return password
