"""Notices, by the kernel's inotify, names of files that come and go between two looks."""

from __future__ import annotations

import fnmatch
import glob
import re
import sys
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from inotify_simple import Event, INotify

FOLDERS_WATCHED_MAX = 256
"""Upper bound on folders that are watched for one stream; the files of others are found by looking alone."""
PASSED_MAX = 1024
"""Upper bound on names followed between two looks; the files of further ones are found by looking alone."""


@dataclass(frozen=True, slots=True)
class Passed:
    """A file that had a matching name since the last look and has it no more. `path`: where it is now; None: it was
    deleted, or moved to a folder that is not watched, since it was created.
    """

    name: str
    path: str | None


@dataclass(slots=True)
class _Move:
    """The first half of a rename: the matching name of the file, and whether it came since the last look."""

    name: str
    is_born: bool
    is_old: bool = False


class FolderWatch:
    """Watches the folders of a stream's patterns for names that come and go.

    Notices nothing where the system has no inotify, or no watch left for it.
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        self._patterns = tuple(patterns)
        self._inotify = _new_inotify()
        if self._inotify is not None:
            weakref.finalize(self, self._inotify.close)
        self._folders: dict[int, str] = {}
        self._names: dict[str, re.Pattern[str]] = {}
        """By folder: the names in it that match."""
        self._has_news = False
        self._born: set[str] = set()
        """Matching names given to files since the last look."""
        self._renamed: dict[str, str] = {}
        """Files that had a matching name since the last look, or have it: by their names now, the matching ones."""
        self._moving: dict[int, _Move] = {}
        """Files between two names, by the kernel's number of the move."""
        self._gone: list[str] = []

    def has_news(self) -> bool:
        """Whether a matching name has come or gone since the last look. Does not block."""
        if self._inotify is not None:
            for event in self._inotify.read(timeout=0):
                self._note(event)
        return self._has_news

    def take(self) -> list[Passed]:
        """The files that have lost their matching names since the last call. Watches what folders there are by now."""
        self.has_news()
        passed = [Passed(name, path) for path, name in self._renamed.items() if path != name]
        passed += [Passed(name, None) for name in self._gone]
        # A move whose second half has not come by the next look has left the watched folders.
        passed += [Passed(move.name, None) for move in self._moving.values() if move.is_old and move.is_born]
        self._moving = {number: replace(move, is_old=True) for number, move in self._moving.items() if not move.is_old}
        self._has_news, self._born, self._renamed, self._gone = False, set(), {}, []
        self._watch()
        return passed

    def close(self) -> None:
        """Watches no more."""
        if self._inotify is not None:
            self._inotify.close()
            self._inotify = None

    def _watch(self) -> None:
        if self._inotify is None:
            return
        from inotify_simple import flags

        wanted = flags.CREATE | flags.DELETE | flags.MOVED_FROM | flags.MOVED_TO | flags.ONLYDIR
        names: dict[str, list[str]] = {}
        for folder, name in islice(self._places(), FOLDERS_WATCHED_MAX):
            names.setdefault(folder, []).append(_pattern_of(name))
        self._names = {folder: re.compile("|".join(of_folder)) for folder, of_folder in names.items()}
        watched = {}
        for folder in names:
            try:
                watched[self._inotify.add_watch(folder, wanted)] = folder
            except OSError:  # it is gone, or the system has no watch left
                continue
        for number in self._folders.keys() - watched.keys():
            try:
                self._inotify.rm_watch(number)
            except OSError:  # it went with its folder
                continue
        self._folders = watched

    def _places(self) -> Iterator[tuple[str, str]]:
        """The folders of the patterns, with the pattern of the names in each."""
        for pattern in self._patterns:
            parent, name = str(Path(pattern).parent), Path(pattern).name
            if name == "**":
                parent, name = pattern, "*"
            folders = glob.iglob(parent, recursive=True) if glob.has_magic(parent) else (parent,)  # noqa: PTH207
            for folder in folders:
                yield str(Path(folder)), name

    def _note(self, event: Event) -> None:
        from inotify_simple import flags

        if event.mask & flags.Q_OVERFLOW:
            self._has_news = True
        folder = self._folders.get(event.wd)
        if folder is None or not event.name or event.mask & flags.ISDIR:
            return
        path, matches = f"{folder}/{event.name}", self._names[folder].fullmatch(event.name) is not None
        self._has_news |= matches
        if event.mask & flags.CREATE and matches:
            self._came(path, path)
        elif event.mask & flags.MOVED_TO:
            move = self._moving.pop(event.cookie, None)
            if matches or move is not None:
                self._came(path, path if matches or move is None else move.name)
        elif event.mask & flags.MOVED_FROM:
            origin = self._renamed.pop(path, path if matches else None)
            if origin is not None and len(self._moving) < PASSED_MAX:
                self._moving[event.cookie] = _Move(origin, origin in self._born)
        elif event.mask & flags.DELETE:
            origin = self._renamed.pop(path, None)
            if origin is not None and origin in self._born and len(self._gone) < PASSED_MAX:
                self._gone.append(origin)

    def _came(self, path: str, origin: str) -> None:
        if len(self._renamed) < PASSED_MAX:
            self._renamed[path] = origin
        if path == origin:
            self._born.add(path)


def _new_inotify() -> INotify | None:
    if sys.platform != "linux":
        return None
    from inotify_simple import INotify

    try:
        return INotify()
    except OSError:  # the system has no instance left
        return None


def _pattern_of(name: str) -> str:
    """The regular expression of names that a glob matches: a wildcard at the beginning matches no dot."""
    hidden = "" if name.startswith(".") else r"(?!\.)"
    return f"(?:{hidden}{fnmatch.translate(name)})"
