"""Checks the files of an agent: certificate, rights on folders and logs, room on disks."""

from __future__ import annotations

import errno
import grp
import os
import pwd
import shlex
import shutil
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from agent import Config
from agent.sources.file.finding import find_files
from elf.commands.doctor.diagnosis import Diagnosis, fault, fine, warning
from elf.errors import ElfError
from elf.options.configuration import read_identity

DAYS_MIN = 14
FREE_BYTES_MIN = 1 << 30
FREE_INODES_MIN = 10_000


def check_files(config: Config, user: pwd.struct_passwd) -> Iterator[Diagnosis]:
    """All checks of files, for the user as whom the agent runs."""
    yield _certificate(config)
    yield from _folders(config, user)
    for stream in config.streams:
        yield _stream(stream.name, stream.source.locations, user)
    yield from _disks(config)


def _certificate(config: Config) -> Diagnosis:
    try:
        identity = read_identity(config)
    except ElfError as error:
        return fault("certificate", str(error), f"elf ca show {shlex.quote(str(config.identity.certificate))}")
    left = (identity.expires - datetime.now(UTC)).total_seconds() / 86400
    found = f"{identity.name} of {identity.fleet}, valid until {identity.expires:%Y-%m-%d} ({left:,.0f} days)"
    renew = f"elf ca renew AUTHORITY {shlex.quote(identity.name)}   # where the authority is, then copy the files here"
    if left <= 0:
        return fault("certificate", f"has expired: {found}", renew)
    return warning("certificate", found, renew) if left < DAYS_MIN else fine("certificate", found)


def _folders(config: Config, user: pwd.struct_passwd) -> Iterator[Diagnosis]:
    folders = {"data_directory": config.data_directory, "control_socket": config.control_socket.parent}
    if config.archive is not None:
        folders["archive.directory"] = config.archive.directory
    if config.metrics is not None and config.metrics.socket is not None:
        folders["metrics.socket"] = config.metrics.socket.parent
    for key, folder in folders.items():
        quoted = shlex.quote(str(folder))
        if not folder.is_dir():
            made = _nearest_folder(folder)
            if key in ("data_directory", "archive.directory") and may(made, user, os.W_OK | os.X_OK):
                yield fine(key, f"{folder} will be made")
                continue
            yield fault(key, f"{folder} is not there", f"sudo install -d -m 750 -o {user.pw_name} {quoted}")
        elif _is_read_only(folder):
            mend = f"dmesg | tail; sudo mount -o remount,rw {shlex.quote(_mount(folder))}"
            yield fault(key, f"{folder} is read-only, as a disk is that has failed", mend)
        elif not may(folder, user, os.R_OK | os.W_OK | os.X_OK):
            yield fault(key, f"{user.pw_name} may not write to {folder}", f"sudo chown {user.pw_name} {quoted}")
        else:
            yield fine(key, f"{folder} can be written by {user.pw_name}")


def _is_read_only(folder: Path) -> bool:
    """Whether no file can be made there by anybody: a disk that has failed does not say so otherwise."""
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        return error.errno == errno.EROFS
    return False


def _mount(folder: Path) -> str:
    """The place where the file system of a folder is mounted."""
    folder = folder.absolute()
    return str(next(place for place in (folder, *folder.parents) if place.is_mount()))


def _nearest_folder(path: Path) -> Path:
    return next((parent for parent in path.parents if parent.is_dir()), Path("/"))


def _stream(name: str, locations: tuple[str, ...], user: pwd.struct_passwd) -> Diagnosis:
    check = f"stream {name}"
    files = [Path(one.path) for one in find_files(locations).files.values()]
    if not files:
        first = next(iter(locations), "")
        return warning(
            check, f"no file matches {', '.join(locations)}", f"ls -l {shlex.quote(str(Path(first).parent))}"
        )
    for file in files:
        blocked = next((parent for parent in reversed(file.parents) if not may(parent, user, os.X_OK)), None)
        if blocked is not None:
            return fault(check, f"{user.pw_name} may not enter {blocked}", _join_group(blocked, user))
        if not may(file, user, os.R_OK):
            return fault(check, f"{user.pw_name} may not read {file}", _join_group(file, user))
    return fine(check, f"{len(files):,} files, which {user.pw_name} may read")


def _join_group(path: Path, user: pwd.struct_passwd) -> str:
    """The command that lets a user read what the path's group may read, else one for this path alone."""
    quoted = shlex.quote(str(path))
    try:
        status = path.stat()
        group = grp.getgrgid(status.st_gid).gr_name
    except (OSError, KeyError):
        return f"sudo setfacl -m u:{user.pw_name}:rX {quoted}"
    if status.st_gid and status.st_mode & 0o040:
        return f"sudo usermod -aG {shlex.quote(group)} {user.pw_name} && sudo systemctl restart elf-agent"
    return f"sudo setfacl -m u:{user.pw_name}:rX {quoted}"


def may(path: Path, user: pwd.struct_passwd, wanted: int) -> bool:
    """Whether a user may do all that is wanted (os.R_OK ...) with a path, by its mode."""
    if user.pw_uid == os.geteuid():
        return os.access(path, wanted)
    try:
        status = path.stat()
    except OSError:
        return False
    if user.pw_uid == 0:
        return True
    shift = 6 if status.st_uid == user.pw_uid else 3 if status.st_gid in groups_of_user(user) else 0
    return (status.st_mode >> shift) & wanted == wanted


def groups_of_user(user: pwd.struct_passwd) -> set[int]:
    return set(os.getgrouplist(user.pw_name, user.pw_gid))


def _disks(config: Config) -> Iterator[Diagnosis]:
    folders = {"disk of data_directory": (config.data_directory, FREE_BYTES_MIN)}
    if config.archive is not None:
        folders["disk of archive.directory"] = (config.archive.directory, config.archive.disk_free_min_bytes)
    for check, (folder, least) in folders.items():
        there = folder if folder.is_dir() else _nearest_folder(folder)
        free, inodes = shutil.disk_usage(there).free, os.statvfs(there)
        look = f"sudo du -xh --max-depth=2 {shlex.quote(str(there))} | sort -h | tail"
        found = f"{free / 2**30:,.1f} GiB free"
        if free < least:
            yield fault(check, f"{found}, of which {least / 2**30:,.1f} GiB are to be left", look)
        elif inodes.f_files and inodes.f_favail < FREE_INODES_MIN:
            yield fault(check, f"{inodes.f_favail:,} inodes free", f"df -i {shlex.quote(str(there))}")
        else:
            yield fine(check, found)
