"""The `elf` command on a life line: `python -m elf.demo.agents.tether agent --config FILE`.

It ends when its standard input ends. Whoever starts it keeps the other end of that pipe: however they end, and
whatever thread they started it from, no process is left.
"""

import contextlib
import os
import signal
import threading
import time

_GRACE_S = 3.0
_BYTES = 4096


def hold_on() -> None:
    """From now on the end of standard input is the end of this process: politely first, then by force."""
    threading.Thread(target=_end_with_parent, name="life line", daemon=True).start()


def _end_with_parent() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # they are the main thread's
    with contextlib.suppress(OSError):
        while os.read(0, _BYTES):
            pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_GRACE_S)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    hold_on()
    from elf.cli import main  # only now: the line must hold while it is imported, too

    main()
