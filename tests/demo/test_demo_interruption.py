"""Ctrl-C and SIGTERM while the demo starts processes and makes folders: each is noted, so each can be ended."""

from __future__ import annotations

import signal
import threading
from pathlib import Path

import pytest

from elf.demo.agents import agents
from elf.demo.agents.agents import AgentFleet, AgentSpec
from elf.demo.interruption import orderly_end, uninterrupted


def _interrupted_block(number: signal.Signals, done: list[str], error: Exception | None = None) -> None:
    with uninterrupted():
        signal.raise_signal(number)
        done.append("the block")
        if error is not None:
            raise error


def test_an_interruption_comes_at_the_end_of_the_block() -> None:
    done: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        _interrupted_block(signal.SIGINT, done)
    assert done == ["the block"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_sigterm_is_postponed_and_keeps_its_exit_code() -> None:
    done: list[str] = []
    with pytest.raises(SystemExit) as ended, orderly_end():
        _interrupted_block(signal.SIGTERM, done)
    assert (ended.value.code, done) == (128 + signal.SIGTERM, ["the block"])


def test_an_error_in_the_block_goes_first() -> None:
    with pytest.raises(OSError, match="of the block"):
        _interrupted_block(signal.SIGINT, [], OSError("of the block"))


def test_other_threads_are_not_interrupted_anyway() -> None:
    handlers = []

    def work() -> None:
        with uninterrupted():
            handlers.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert handlers == [signal.default_int_handler]


def test_the_folder_of_sockets_is_removed_though_ctrl_c_came_when_it_was_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Path] = []

    def make_while_ctrl_c_comes(directory: Path) -> Path:
        signal.raise_signal(signal.SIGINT)
        made.append(directory / "sockets")
        made[0].mkdir()
        return made[0]

    monkeypatch.setattr(agents, "_sockets_directory", make_while_ctrl_c_comes)
    with pytest.raises(KeyboardInterrupt), AgentFleet(tmp_path, [AgentSpec("a", ())]):
        pytest.fail("it started")
    assert not made[0].exists()
