"""Epochs on disk: the highest counter of every group is there after any end of the process; the file stays small."""

from __future__ import annotations

import errno
import os
import random
from pathlib import Path

import pytest

from agent.daemon import epochs_file
from agent.daemon.data_directory import DataDirectory
from agent.daemon.epochs_file import EpochsFile
from agent.runtime.agent import Agent
from agent.runtime.messages.sender import FLEET_GROUP
from agent.runtime.requests.events import AgentObserver
from overlay import EpochTaken, Id, Node, Peer


def test_what_was_noted_is_there_at_the_next_start(tmp_path: Path) -> None:
    with DataDirectory(tmp_path) as directory:
        directory.epochs().note([EpochTaken(Id(7), 3), EpochTaken(Id(8), 1), EpochTaken(Id(7), 5)])
    with DataDirectory(tmp_path) as directory:
        epochs = directory.epochs()
        assert epochs.counters == {7: 5, 8: 1}
        epochs.note([EpochTaken(Id(7), 6)])
    assert EpochsFile(tmp_path / "epochs").counters == {8: 1, 7: 6}


@pytest.mark.parametrize(
    "damage", [b"00", b"0" * 31 + b"9 x\n", b"\xff\xfe\n", b"0" * 31 + b"9 " + b"9" * 30, b"\n \n"]
)
def test_damaged_lines_are_none(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "epochs"
    EpochsFile(path).note([EpochTaken(Id(7), 3)])
    path.write_bytes(path.read_bytes() + damage)
    epochs = EpochsFile(path)
    assert epochs.counters == {7: 3}
    epochs.note([EpochTaken(Id(8), 1)])
    assert EpochsFile(path).counters == {7: 3, 8: 1}


def test_what_is_noted_after_a_full_disk_tore_a_line_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "epochs"
    epochs = EpochsFile(path)
    epochs.note([EpochTaken(Id(7), 3)])

    def tear(_: int) -> None:
        os.truncate(path, path.stat().st_size - 5)
        raise OSError(errno.ENOSPC, "no space left on device")

    with monkeypatch.context() as full:
        full.setattr(os, "fsync", tear)
        with pytest.raises(OSError, match="no space left"):
            epochs.note([EpochTaken(Id(8), 1)])
    epochs.note([EpochTaken(Id(9), 2)])
    kept = EpochsFile(path).counters
    assert (kept[Id(7)], kept[Id(9)]) == (3, 2)


def test_the_file_does_not_grow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(epochs_file, "GROUPS_MAX", 10)
    monkeypatch.setattr(epochs_file, "LINES_MAX", 40)
    path = tmp_path / "epochs"
    epochs = EpochsFile(path)
    for number in range(500):
        epochs.note([EpochTaken(Id(number % 30), number)])
        assert len(path.read_bytes().splitlines()) <= 40
    assert EpochsFile(path).counters == {number % 30: number for number in range(490, 500)}


def test_an_agent_says_which_epochs_it_took_before_its_messages_are_fetched() -> None:
    node = Node(Peer(1, "alone:1"), random=random.Random(1), epochs={FLEET_GROUP: 4})
    noted = list[EpochTaken]()

    class Observer(AgentObserver):
        def epochs_taken(self, epochs: list[EpochTaken]) -> None:
            noted.extend(epochs)

    agent = Agent("alone", node, {}, observer=Observer())
    node.start(0.0)
    agent.start(0.0)
    agent.process_events(0.0, 0)
    assert noted == [EpochTaken(FLEET_GROUP, 5)]
