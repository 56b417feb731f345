"""Ends the demo in good order on SIGTERM and SIGHUP as on Ctrl-C; the exit code tells them apart."""

import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeVar

import trio

Result = TypeVar("Result")
_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def orderly_end() -> Iterator[None]:
    """Within the block, SIGTERM and SIGHUP raise KeyboardInterrupt as Ctrl-C does; the block then raises SystemExit."""
    received: list[int] = []

    def interrupt(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the signature is given
        received.append(number)
        signal.raise_signal(signal.SIGINT)  # the handler of Ctrl-C, such as trio's, knows when that is safe

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


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Postpones Ctrl-C to the end of the block, so that what the block starts is also noted and will be ended."""
    if threading.current_thread() is not threading.main_thread():  # only that one is interrupted
        yield
        return
    postponed: list[int] = []
    previous = signal.signal(signal.SIGINT, lambda number, _: postponed.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
    if postponed:
        signal.raise_signal(signal.SIGINT)


def run_orderly(work: Callable[..., Awaitable[Result]], *arguments: object) -> Result:
    """Runs trio so that interruptions come only at checkpoints: elsewhere work would be left half done."""
    return trio.run(work, *arguments, restrict_keyboard_interrupt_to_checkpoints=True)


@contextmanager
def undisturbed_end() -> Iterator[None]:
    """Ignores signals from the end of the block until that of `orderly_end` around it: put it innermost."""
    try:
        yield
    finally:
        for number in (signal.SIGINT, *_SIGNALS):
            signal.signal(number, signal.SIG_IGN)
