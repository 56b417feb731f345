"""Ends in good order on SIGTERM and SIGHUP too: they do what Ctrl-C does, and the exit code says which it was."""

import signal
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeVar

import trio

Result = TypeVar("Result")
_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def orderly_end() -> Iterator[None]:
    """In the block, SIGTERM and SIGHUP raise KeyboardInterrupt where Ctrl-C would; SystemExit comes out of it."""
    received: list[int] = []

    def interrupt(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the signature is given
        received.append(number)
        signal.raise_signal(signal.SIGINT)  # whoever handles Ctrl-C, trio for one, knows when it is safe to

    previous: dict[signal.Signals, Any] = {signal.SIGINT: signal.getsignal(signal.SIGINT)}
    if previous[signal.SIGINT] == signal.SIG_IGN:  # as in the background of a script, where SIGTERM is to work too
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in _SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:  # as under nohup
            previous[number] = signal.signal(number, interrupt)
    try:
        yield
    except KeyboardInterrupt:
        if received:
            sys.exit(128 + received[0])
        raise
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def run_orderly(work: Callable[..., Awaitable[Result]], *arguments: object) -> Result:
    """Run trio so that an interruption comes where tasks wait anyway: elsewhere it leaves things half done."""
    return trio.run(work, *arguments, restrict_keyboard_interrupt_to_checkpoints=True)


@contextmanager
def undisturbed_end() -> Iterator[None]:
    """After the block no signal interrupts any more, until `orderly_end` around it is over: put it innermost."""
    try:
        yield
    finally:
        for number in (signal.SIGINT, *_SIGNALS):
            signal.signal(number, signal.SIG_IGN)
