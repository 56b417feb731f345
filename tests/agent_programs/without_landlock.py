"""Runs a command as on a kernel without Landlock: its system calls are not there."""

from __future__ import annotations

import errno
import os
import struct
import sys

from agent.programs import kernel, landlock
from agent.programs.seccomp import ALLOW, JUMP_IF_AT_LEAST, LOAD, REFUSE, RETURN

if __name__ == "__main__":
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    kernel.set_seccomp_filter(
        b"".join(
            struct.pack("=HBBI", *instruction)
            for instruction in (
                (LOAD, 0, 0, 0),
                (JUMP_IF_AT_LEAST, 0, 2, landlock.CREATE_RULESET),
                (JUMP_IF_AT_LEAST, 1, 0, landlock.RESTRICT_SELF + 1),
                (RETURN, 0, 0, REFUSE | errno.ENOSYS),
                (RETURN, 0, 0, ALLOW),
            )
        )
    )
    os.execv(sys.argv[1], sys.argv[1:])
