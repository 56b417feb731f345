"""Runs a command as on another kernel: `without` Landlock, or with an `unfinished` one.

The unfinished one claims a version whose rights over signals and abstract sockets it lacks, as some have done.
"""

from __future__ import annotations

import errno
import os
import struct
import sys

from agent.programs import kernel, landlock
from agent.programs.seccomp import ALLOW, JUMP_IF_AT_LEAST, JUMP_IF_EQUAL, LOAD, REFUSE, RETURN, Instruction

NUMBER_AT, SIZE_AT = 0, 24
SIZE_WITH_SCOPES = 24
KERNELS: dict[str, list[Instruction]] = {
    "without": [
        (LOAD, 0, 0, NUMBER_AT),
        (JUMP_IF_AT_LEAST, 0, 2, landlock.CREATE_RULESET),
        (JUMP_IF_AT_LEAST, 1, 0, landlock.RESTRICT_SELF + 1),
        (RETURN, 0, 0, REFUSE | errno.ENOSYS),
        (RETURN, 0, 0, ALLOW),
    ],
    "unfinished": [
        (LOAD, 0, 0, NUMBER_AT),
        (JUMP_IF_EQUAL, 0, 3, landlock.CREATE_RULESET),
        (LOAD, 0, 0, SIZE_AT),
        (JUMP_IF_EQUAL, 0, 1, SIZE_WITH_SCOPES),
        (RETURN, 0, 0, REFUSE | errno.EINVAL),
        (RETURN, 0, 0, ALLOW),
    ],
}

if __name__ == "__main__":
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    kernel.set_seccomp_filter(b"".join(struct.pack("=HBBI", *step) for step in KERNELS[sys.argv[1]]))
    os.execv(sys.argv[2], sys.argv[2:])
