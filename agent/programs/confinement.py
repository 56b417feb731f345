"""Gives up, in the calling process and for good, all rights the code of a job does not need.

Landlock takes the files and, with newer kernels, networks and other processes; a filter of system calls takes
everything but computing, reading what may be read and talking over open pipes; limits bound memory and descriptors.
None of it needs privileges. Where any part is unavailable, confinement fails as a whole.
"""

from __future__ import annotations

import errno
import os
import resource
import sys
from collections.abc import Callable, Iterable

from agent.programs import kernel, landlock
from agent.programs.commands import ProgramLimits
from agent.programs.system_calls import AUDIT_NAMES, program_filter


class ConfinementError(Exception):
    """Programs cannot be contained here; one line for people."""


def unsupported() -> str | None:
    """The reason no machine like this can contain programs, without asking the kernel; None if it may be able to."""
    system, machine = os.uname().sysname, os.uname().machine
    if system != "Linux":
        return f"programs cannot be contained on {system}: it takes Linux 5.13 or newer"
    if machine not in AUDIT_NAMES or sys.maxsize < 1 << 32:
        return f"programs cannot be contained on {machine}: it takes {' or '.join(AUDIT_NAMES)}, and Python of 64 bits"
    return None


def refusal() -> str | None:
    """The reason this machine cannot contain programs, as far as is known without trying; None if it can."""
    if (reason := unsupported()) is not None:
        return reason
    try:
        landlock.version()
    except OSError as error:
        return f"programs cannot be contained here: no Landlock in this kernel, or switched off ({error.strerror})"
    try:
        kernel.prctl(kernel.PR_SET_SECCOMP, kernel.SECCOMP_MODE_FILTER, None)
    except OSError as error:
        if error.errno != errno.EFAULT:  # it would have looked at a filter, had there been one
            return f"programs cannot be contained here: no filters of system calls in this kernel ({error.strerror})"
    return None


def confine(limits: ProgramLimits, readable: Iterable[str]) -> None:
    """Contains this process, which must have one thread. ConfinementError if that is impossible.

    Afterwards only files beneath `readable` can be read.
    """
    if (reason := refusal()) is not None:
        raise ConfinementError(reason)
    steps: tuple[tuple[str, Callable[[], object]], ...] = (
        ("limits of resources", lambda: _limit_resources(limits)),
        ("core dumps", lambda: kernel.prctl(kernel.PR_SET_DUMPABLE, 0)),
        ("no_new_privs", lambda: kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)),
        ("capabilities", kernel.drop_capabilities),
        ("Landlock", lambda: landlock.restrict(readable)),
        ("seccomp", _filter_system_calls),
    )
    for name, step in steps:
        try:
            step()
        except OSError as error:
            raise ConfinementError(f"programs cannot be contained here: {name}: {error.strerror}") from None
    _prove()


def _limit_resources(limits: ProgramLimits) -> None:
    wanted = {
        resource.RLIMIT_AS: limits.memory_bytes,
        resource.RLIMIT_NOFILE: limits.open_files,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: 0,
        resource.RLIMIT_MEMLOCK: 0,
        resource.RLIMIT_NPROC: 0,
    }
    for which, most in wanted.items():
        _, hard = resource.getrlimit(which)
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(which, (most, most))


def _filter_system_calls() -> None:
    kernel.set_seccomp_filter(program_filter(os.uname().machine, os.getpid()).assembled())


def _prove() -> None:
    """Tries forbidden calls: a sandbox that emulates the kernel may accept all steps and enforce none."""
    for name, attempt in (
        ("Landlock", lambda: os.close(os.open("/", os.O_RDONLY | os.O_DIRECTORY))),
        ("seccomp", lambda: os.getsid(0)),
    ):
        try:
            attempt()
        except PermissionError:
            continue
        raise ConfinementError(f"programs cannot be contained here: {name} is accepted and does not hold")
