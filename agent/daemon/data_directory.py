"""The agent's own folder: a lock for one agent, the number of its starts, and files of state that outlives them or does
not fit its memory.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

from agent import log
from agent.daemon.epochs_file import EpochsFile
from agent.daemon.job_files import JobFiles
from agent.durable_files import write_also_if_full, write_durably
from agent.errors import StartError
from agent.runtime.fleet.ended_mandates import MARKS_BYTES_MAX

DIRECTORY_MODE = 0o750
FORMAT = 1
"""The version of all that is in the folder. One without the file is of the first."""
FORMAT_FILE = "format"
INCARNATION_FILE = "incarnation"
ENDED_MANDATES_FILE = "ended-mandates"
LOCK_FILE = "lock"
CLOCK_FILE = "clock"
CLOCK_BYTES_MAX = 128
BOOT_ID_PATH = Path("/proc/sys/kernel/random/boot_id")
CLOCK_MOVED_MS = 250
"""Change of the clock's lead from which on it is stored again: clocks drift."""
REVOCATIONS_FILE = "revoked.pem"
REVOCATIONS_BYTES_MAX = 16 << 20
EPOCHS_FILE = "epochs"
JOBS_DIRECTORY = "jobs"
SEALED_DIRECTORY = "sealed"
SPILL_DIRECTORY = "spill"
SHOWN_DIRECTORY = "shown"
INCARNATION_MAX = 1 << 62
_DIGITS_MAX = 20
WARNING_PERIOD_S = 60.0
"""Shortest interval between two warnings of one kind."""
SHOWN_FILES_MAX = 256
SHOWN_MODE = 0o644


class DataDirectory:
    """The folder, which this process owns: `with DataDirectory(path) as directory`.

    StartError (one line) when it cannot be made or written, another agent uses it, or a later ELF has left it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: int | None = None

    def __enter__(self) -> Self:
        try:
            self.path.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
            # The lock goes with the process, however it ends.
            self._lock = os.open(self.path / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._release()
            raise StartError(f"data_directory {self.path}: another agent uses it") from None
        except OSError as error:
            self._release()
            raise self._unusable(error) from None
        try:
            self._check_format()
        except StartError:
            self._release()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._release()

    def next_incarnation(self, wall_s: int) -> int:
        """The number of this start, one above the last, on disk before it is returned, also if that is full.

        If the file holds no number, the time replaces it, which is higher than any number of starts.
        """
        path = self.path / INCARNATION_FILE
        try:
            incarnation = self._last(path, wall_s) + 1
            write_also_if_full(path, f"{incarnation}\n".encode())
        except OSError as error:
            raise self._unusable(error) from None
        return incarnation

    def _check_format(self) -> None:
        """Checks that this release reads what the folder holds, and notes what it writes."""
        path = self.path / FORMAT_FILE
        try:
            with path.open("rb") as file:
                text = file.read(_DIGITS_MAX + 1).strip()
        except FileNotFoundError:
            with suppress(OSError):  # on a full disk it is noted later
                write_durably(path, f"{FORMAT}\n".encode())
            return
        except OSError as error:
            raise self._unusable(error) from None
        if text.isdigit() and int(text) > FORMAT:
            raise StartError(
                f"data_directory {self.path}: a later ELF has left it, in format {int(text)}; this one reads up to"
                f" {FORMAT}: start that release again, or name another data_directory, without what this one keeps"
            )

    def revocations(self) -> bytes:
        """The lists of revoked certificates saved here; empty if there are none."""
        try:
            with (self.path / REVOCATIONS_FILE).open("rb") as file:
                return file.read(REVOCATIONS_BYTES_MAX)
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise self._unusable(error) from None

    def keep_revocations(self, lists: bytes) -> None:
        """Saves lists of revoked certificates for the next start. OSError if the disk does not take them."""
        write_durably(self.path / REVOCATIONS_FILE, lists)

    def ended_mandates(self) -> bytes:
        """The marks of stopped jobs saved here; empty if there are none."""
        try:
            with (self.path / ENDED_MANDATES_FILE).open("rb") as file:
                return file.read(MARKS_BYTES_MAX)
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise self._unusable(error) from None

    def keep_ended_mandates(self, marks: bytes) -> None:
        """Saves the marks of stopped jobs for the next start. OSError if the disk does not take them."""
        write_durably(self.path / ENDED_MANDATES_FILE, marks)

    def clock(self, warn: Callable[[str, str], None], timers_s: float) -> ClockFile:
        """The clock as this agent has believed it before. `timers_s`: the lead of the clock of timers on the machine's
        monotonic one."""
        return ClockFile(self.path / CLOCK_FILE, _boot_id(), round(1000 * timers_s), warn)

    def epochs(self) -> EpochsFile:
        """Epochs of the trees this agent has been the root of, over all its starts."""
        try:
            return EpochsFile(self.path / EPOCHS_FILE)
        except OSError as error:
            raise self._unusable(error) from None

    def job_files(self) -> JobFiles:
        """The jobs whose descriptors are on this agent, over all its starts."""
        return JobFiles(self.path / JOBS_DIRECTORY)

    def empty_spill_directory(self) -> Path:
        """An empty folder for files of this process alone; those a killed process left are removed."""
        return self._emptied(SPILL_DIRECTORY, 0o700)

    def shown_directory(self) -> Path:
        """An empty folder for files that jobs show through the web server."""
        return self._emptied(SHOWN_DIRECTORY, 0o755)

    def _emptied(self, name: str, mode: int) -> Path:
        path = self.path / name
        try:
            if path.is_dir() and not path.is_symlink():
                for left in path.iterdir():  # the folder stays: on a full disk there is no room for another
                    shutil.rmtree(left) if left.is_dir() and not left.is_symlink() else left.unlink()
                path.chmod(mode)
            else:
                path.mkdir(mode=mode)
        except OSError as error:
            raise self._unusable(error) from None
        return path

    def _last(self, path: Path, wall_s: int) -> int:
        try:
            with path.open("rb") as file:
                text = file.read(_DIGITS_MAX + 1).strip()
        except FileNotFoundError:
            return 0
        if text.isdigit() and 0 <= int(text) < INCARNATION_MAX:
            return int(text)
        return wall_s

    def _unusable(self, error: OSError) -> StartError:
        reason = (error.strerror or str(error)).lower()
        where = f" ({error.filename})" if error.filename and str(error.filename) != str(self.path) else ""
        return StartError(f"data_directory {self.path}: cannot be used: {reason}{where}")

    def _release(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _boot_id() -> str:
    """The name of the machine's present run, since whose start the monotonic clock counts; "" where it has none."""
    try:
        return BOOT_ID_PATH.read_text().strip()
    except OSError:
        return ""


class ClockFile:
    """Keeps the lead of the wall clock on the machine's monotonic one, as the agent believes it, for its next process.

    The monotonic clock goes on until the machine is started again: what was stored before that says nothing.
    `timers_ms` is the lead of the clock of timers on it. `warn` gets what the disk does not take, and why.
    """

    def __init__(self, path: Path, boot: str, timers_ms: int, warn: Callable[[str, str], None]) -> None:
        self._path = path
        self._boot = boot
        self._timers_ms = timers_ms
        self._warn = warn
        self._stored_ms: float | None = None

    def read(self) -> float | None:
        """The lead (ms) on the clock of timers that was stored since the machine was started; None: not known."""
        try:
            with self._path.open("rb") as file:
                boot, _, lead = file.read(CLOCK_BYTES_MAX).decode("ascii", "replace").partition(" ")
            self._stored_ms = int(lead) - self._timers_ms if self._boot and boot == self._boot else None
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            self._warn("the clock is not known from before", str(error))
        return self._stored_ms

    def keep(self, lead_ms: float | None) -> None:
        """Stores a lead that differs from the stored one: at a start, and after steps; what the disk does not take is
        not stored before it changes again."""
        if lead_ms is None or (self._stored_ms is not None and abs(lead_ms - self._stored_ms) < CLOCK_MOVED_MS):
            return
        self._stored_ms = lead_ms
        try:
            write_durably(self._path, f"{self._boot} {round(lead_ms + self._timers_ms)}\n".encode())
        except OSError as error:
            self._warn("the clock is not kept", error.strerror or str(error))


class DiskWarnings:
    """Logs failures of the disk, one line a minute for each kind; others are counted. `clock` gives seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._said: dict[str, tuple[float, int]] = {}

    def warn(self, what: str, why: str) -> None:
        """Warns of a failure: `what` is its kind, `why` the system's reason."""
        now = self._clock()
        said_at, unsaid = self._said.get(what, (-WARNING_PERIOD_S, 0))
        if now - said_at < WARNING_PERIOD_S:
            self._said[what] = (said_at, unsaid + 1)
            return
        self._said[what] = (now, 0)
        log.warn("disk", what=what, why=why, times=unsaid + 1)


class ShownFiles:
    """Files that jobs show through the web server beside the agent, `<app>.json` in one folder.

    Characters that are unsafe in file names are escaped as in URLs."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._names: set[str] = set()

    def show(self, app: str, json: bytes) -> None:
        """Replaces a job's file. OSError if the disk does not take it, or there are too many."""
        name = f"{quote(app, safe=' ')[:200]}.json".lstrip(".")
        if name not in self._names and len(self._names) >= SHOWN_FILES_MAX:
            raise OSError(None, f"more than {SHOWN_FILES_MAX} jobs want to show something")
        self._names.add(name)
        beside = self._directory / f"{name}.new"
        beside.write_bytes(json)
        beside.chmod(SHOWN_MODE)
        beside.replace(self._directory / name)
