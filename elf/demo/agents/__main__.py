"""The `elf` command on a life line: `python -m elf.demo.agents agent --config FILE`.

The process ends when its standard input ends. Its starter holds the other end of that pipe, so no process is left
however the starter ends, and whatever thread it started the process from.
"""

import contextlib
import os
import runpy
import signal
import threading
import time

_GRACE_S = 3.0
"""Delay between SIGTERM and SIGKILL."""
_READ_BYTES = 4096


def hold_on() -> None:
    """Ends this process when standard input ends: by SIGTERM, then by SIGKILL."""
    threading.Thread(target=_end_with_parent, name="life line", daemon=True).start()


def _end_with_parent() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # the main thread handles signals
    with contextlib.suppress(OSError):
        while os.read(0, _READ_BYTES):
            pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_GRACE_S)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    hold_on()
    runpy.run_module("elf", run_name="__main__")  # loaded only now, so that the life line holds meanwhile
