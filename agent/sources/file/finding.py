"""Finds the files that the patterns of a stream match now, and the folders that may not be searched for them."""

import glob
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

FILES_MAX = 1024
FOLDERS_MAX = 1024
"""Upper bound on folders searched for the reason that a pattern matches nothing."""
NAMES_MAX = 16 * FILES_MAX
"""Upper bound on names examined at once; that a pattern matches more is reported."""

_KINDS = {
    stat.S_IFDIR: "a directory", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}  # fmt: skip

Identity = tuple[int, int]
"""Device and inode: what a file keeps when it gets another name."""


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A regular file, under the first of the names by which it was found."""

    path: str
    status: os.stat_result

    @property
    def identity(self) -> Identity:
        return identity_of(self.status)


@dataclass(slots=True)
class FoundFiles:
    """Files by identity, in the order of their names; and by path the reasons why other matches cannot be read."""

    files: dict[Identity, FoundFile] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)


def find_files(patterns: Sequence[str]) -> FoundFiles:
    """Finds what glob patterns (`**` for any depth) match now. A file with several names is found once.

    Where a pattern matches nothing, folders that may not be searched are reported: they may be the reason.
    """
    found = FoundFiles()
    names: set[str] = set()
    for pattern in patterns:
        matched = list(islice(_names(pattern), NAMES_MAX + 1))
        names.update(matched)
        if not matched:
            found.refused.update(_barred(pattern))
        if len(names) > NAMES_MAX:
            found.refused[" ".join(patterns)] = f"matches more than {NAMES_MAX:,} names: the others are not looked at"
            break
    for path in sorted(names)[:NAMES_MAX]:
        try:
            status = os.stat(path)  # noqa: PTH116 (every second for up to a thousand files: a Path takes thrice as long)
        except FileNotFoundError:
            if Path(path).is_symlink():  # else it has just vanished
                found.refused[path] = "is a link to nothing"
        except OSError as error:
            found.refused[path] = reason_of(error)
        else:
            if not stat.S_ISREG(status.st_mode):
                found.refused[path] = f"is {_KINDS.get(stat.S_IFMT(status.st_mode), 'no file')}, not a file"
            else:
                found.files.setdefault(identity_of(status), FoundFile(path, status))
    return found


def identity_of(status: os.stat_result) -> Identity:
    return status.st_dev, status.st_ino


def reason_of(error: OSError) -> str:
    """The reason of an error, in the few words that follow a file's name."""
    return (error.strerror or str(error)).lower()


def _names(pattern: str) -> Iterator[str]:
    if "\0" in pattern:  # no file has such a name, and the operating system will not even look
        return iter(())
    return glob.iglob(pattern, recursive=True)  # noqa: PTH207 (a Path's glob takes no absolute pattern)


def _barred(pattern: str) -> dict[str, str]:
    """The folders at which the search for a pattern ends for lack of permission."""
    way = Path(pattern)
    for parent, name in zip(way.parents, reversed(way.parts), strict=False):
        if folders := list(islice(_names(str(parent)), FOLDERS_MAX)):
            is_deep = parent.name == "**"
            return {folder: why for folder in folders if (why := _bar(folder, name, is_deep=is_deep))}
    return {}


def _bar(folder: str, name: str, *, is_deep: bool) -> str | None:
    """The reason a folder (`is_deep`: and the folders within) may not be searched for a name or pattern."""
    is_pattern = glob.has_magic(name)
    try:
        if is_pattern or is_deep:
            os.scandir(folder).close()
        if not is_pattern:
            (Path(folder) / name).stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        return f"cannot be looked into: {reason_of(error)}"
    return None
