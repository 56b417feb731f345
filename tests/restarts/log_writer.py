"""A web server's log as files on disk, whose events have ids, and everything that rotation does to it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from compressing import compress, rotate

Rotate = Callable[["LogWriter"], None]


class LogWriter:
    """Writes one log; files have the times of the clock that `wall_ms` shows.

    `times_ms` has the time of each event, whose ids are 0, 1, 2…; `ids_gone`: those that deletions have taken from
    the disk, and `ids_unseen` those in files that came and went while no agent was there. `is_watched`: one is.
    """

    def __init__(self, log: Path, wall_ms: Callable[[], int]) -> None:
        self.log = log
        self.times_ms: list[int] = []
        self.ids_gone: set[int] = set()
        self.ids_unseen: set[int] = set()
        self.is_watched = True
        self._was_seen = True
        self._wall_ms = wall_ms
        self._turns = 0
        self._open = self._opened()

    @property
    def written(self) -> int:
        return len(self.times_ms)

    @property
    def pattern(self) -> str:
        return str(self.log)

    def write(self, count: int, *, older_ms: int = 0) -> None:
        lines, time_ms = [], self._wall_ms() - older_ms
        for _ in range(count):
            lines.append(b'{"time": %d, "id": %d}\n' % (time_ms, self.written))
            self.times_ms.append(time_ms)
        os.write(self._open, b"".join(lines))
        self._stamp(self._open)

    def reopen(self) -> None:
        """Goes on in the file that has the log's name, as a server does when it is told to."""
        os.close(self._open)
        self._open = self._opened()

    def close(self) -> None:
        os.close(self._open)

    def _opened(self) -> int:
        self.log.parent.mkdir(exist_ok=True)
        is_new = not self.log.exists()
        descriptor = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC)
        if is_new:
            self._was_seen = self.is_watched
            self._stamp(descriptor)
        return descriptor

    def _stamp(self, file: int | Path) -> None:
        """Gives a file the time of now, at which nothing else is changed."""
        self._turns += 1
        now_ns = self._wall_ms() * 1_000_000 + self._turns
        os.utime(file, ns=(now_ns, now_ns))

    # Rotations.

    def rename(self) -> None:
        """Renames; the server writes on to the renamed file for a moment."""
        rotate(self.log)
        self.write(2)
        self.reopen()

    def create(self) -> None:
        """Renames, and an empty file has the name before anything is written."""
        rotate(self.log)
        self.log.touch()
        self._stamp(self.log)
        self.reopen()

    def gzip(self) -> None:
        """Renames, and compresses at once."""
        rotate(self.log, suffix=".gz")
        self.reopen()

    def gzip_later(self) -> None:
        """Renames, and compresses what was renamed the last time (`delaycompress`)."""
        rotate(self.log, suffix=".gz", delay=True)
        self.reopen()

    def copytruncate(self) -> None:
        """Copies, and truncates."""
        self._copy()
        os.truncate(self.log, 0)
        self._stamp(self.log)

    def reuse_inode(self) -> None:
        """Compresses, and the next log has the inode of the last one."""
        self._copy()
        compress(self.log.with_name(f"{self.log.name}.1"))
        self.log.write_bytes(b"")
        self._stamp(self.log)

    def turn_link(self) -> None:
        """Points the link, which is the log's name, to another file."""
        if not self.log.is_symlink():
            self.log.rename(self.log.with_name("target-0"))
            self.log.symlink_to("target-0")
        self._turns += 1
        target, link = self.log.with_name(f"target-{self._turns}"), self.log.with_name("next-link")
        target.touch()
        self._stamp(target)
        link.symlink_to(target.name)
        link.rename(self.log)
        self.reopen()

    def delete(self) -> None:
        """Deletes the log while the server, and maybe the agent, has it open."""
        content = self.log.read_bytes()
        ids = {int(line.rpartition(b" ")[2].rstrip(b"}")) for line in content.splitlines()}
        self.ids_gone |= ids
        if not self._was_seen and not self.is_watched:
            self.ids_unseen |= ids
        self.log.unlink()
        self.reopen()

    def _copy(self) -> None:
        content = self.log.read_bytes()
        rotate(self.log)
        newest = self.log.with_name(f"{self.log.name}.1")
        newest.rename(self.log)  # the log keeps its inode
        newest.write_bytes(content)
        self._stamp(newest)


ROTATIONS: dict[str, Rotate] = {
    "rename": LogWriter.rename,
    "create": LogWriter.create,
    "copytruncate": LogWriter.copytruncate,
    "gzip": LogWriter.gzip,
    "gzip later": LogWriter.gzip_later,
    "inode used again": LogWriter.reuse_inode,
    "link turned": LogWriter.turn_link,
    "deleted": LogWriter.delete,
}
