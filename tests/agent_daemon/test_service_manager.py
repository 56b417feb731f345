"""What the service manager is told: ready, status, signs of life while the core makes progress, reload, and stop."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
from pumped_fleet import IdleCore, MemoryFleet

from agent.service_manager.life_signs import READY_PATIENCE_S, STATUS_S, LifeSigns
from agent.service_manager.notify_socket import STATUS_CHARACTERS_MAX, NotifySocket, notify_socket

WATCHDOG_S = 8.0
Clock = trio.testing.MockClock


class Manager:
    """A service manager's end of the socket."""

    def __init__(self, path: Path) -> None:
        self.address = str(path)
        self._ends: list[NotifySocket] = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self._socket.bind(self.address)

    def heard(self) -> list[str]:
        """The datagrams since the last time."""
        found = []
        while True:
            try:
                found.append(self._socket.recv(4096).decode())
            except BlockingIOError:
                return found

    def listened_to(self, watchdog_s: float | None = None) -> NotifySocket:
        """The agent's end."""
        self._ends.append(NotifySocket(self.address, watchdog_s))
        return self._ends[-1]

    def close(self) -> None:
        for end in (self._socket, *self._ends):
            end.close()


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    manager = Manager(tmp_path / "notify")
    yield manager
    manager.close()


def test_without_a_service_manager_nothing_is_sent() -> None:
    for environment in ({}, {"NOTIFY_SOCKET": "relative"}, {"NOTIFY_SOCKET": ""}):
        to = notify_socket(environment, 1)
        to.send(READY=1)
        assert not to.is_listened_to


@pytest.mark.parametrize("value", ["", "-1", "soon", "0"])
def test_a_watchdog_of_no_length_is_none(value: str) -> None:
    assert notify_socket({"WATCHDOG_USEC": value}, 1).watchdog_s is None


def test_a_watchdog_that_is_meant_for_another_process_is_not_fed() -> None:
    assert notify_socket({"WATCHDOG_USEC": "1000000", "WATCHDOG_PID": "2"}, 1).watchdog_s is None


def test_a_status_is_one_line_of_bounded_length(manager: Manager) -> None:
    manager.listened_to().send(STATUS="fine\nREADY=1\u2028x" + "y" * 1000)
    (said,) = manager.heard()
    assert said.startswith("STATUS=fine READY=1 x")
    assert len(said) == len("STATUS=") + STATUS_CHARACTERS_MAX


def test_a_manager_that_does_not_read_holds_nobody_up(manager: Manager) -> None:
    to = manager.listened_to()
    for _ in range(10_000):
        to.send(WATCHDOG=1)
    assert 0 < len(manager.heard()) < 10_000
    Path(manager.address).unlink()
    to.send(WATCHDOG=1)


def test_an_abstract_address_begins_with_an_at_sign() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end:
        name = f"elf-test-{id(end)}"
        end.bind(f"\0{name}")
        agents_end = NotifySocket(f"@{name}")
        agents_end.send(READY=1)
        agents_end.close()
        agents_end.send(READY=2)
        assert end.recv(64) == b"READY=1"


@pytest.mark.trio
async def test_signs_of_life_come_from_a_core_that_works(manager: Manager, autojump_clock: Clock) -> None:  # noqa: ARG001
    async with trio.open_nursery() as nursery:
        driver = MemoryFleet(nursery).add("a:1")
        signs = LifeSigns(manager.listened_to(WATCHDOG_S), driver, lambda: "at work")
        nursery.start_soon(signs.run)
        await trio.sleep(2 * WATCHDOG_S + 0.1)
        assert manager.heard().count("WATCHDOG=1") == 9
        driver.fail(ValueError("cannot go on"))
        await trio.sleep(2 * WATCHDOG_S)
        assert "WATCHDOG=1" not in manager.heard()
        nursery.cancel_scope.cancel()


@pytest.mark.trio
async def test_a_core_whose_timers_are_overdue_gives_no_sign(manager: Manager, autojump_clock: Clock) -> None:  # noqa: ARG001
    class Overdue(IdleCore):
        def next_timer(self) -> float | None:
            return 0.0

        def handle_timer(self, _now: float, _wall_ms: int) -> None:
            """Handles nothing: the timer stays due."""

    async with trio.open_nursery() as nursery:
        driver = MemoryFleet(nursery).add("a:1", Overdue)
        await trio.sleep(WATCHDOG_S)
        signs = LifeSigns(manager.listened_to(WATCHDOG_S), driver, lambda: "at work")
        nursery.start_soon(signs.run)
        await trio.sleep(WATCHDOG_S)
        assert "WATCHDOG=1" not in manager.heard()
        nursery.cancel_scope.cancel()


@pytest.mark.trio
async def test_the_status_is_said_when_it_changes(manager: Manager, autojump_clock: Clock) -> None:  # noqa: ARG001
    said = ["joining"]
    async with trio.open_nursery() as nursery:
        driver = MemoryFleet(nursery).add("a:1")
        signs = LifeSigns(manager.listened_to(), driver, lambda: said[0])
        nursery.start_soon(signs.run)
        await trio.sleep(3 * STATUS_S - 1)
        assert manager.heard() == ["STATUS=joining"]
        said[0] = "in the fleet"
        signs.ready()
        assert manager.heard() == ["READY=1", "STATUS=in the fleet"]
        signs.leaving("leaves")
        said[0] = "gone"
        await trio.sleep(3 * STATUS_S)
        assert manager.heard() == ["STOPPING=1\nSTATUS=leaves"]
        nursery.cancel_scope.cancel()


@pytest.mark.trio
async def test_an_agent_that_no_seed_lets_in_counts_as_started_once(manager: Manager, autojump_clock: Clock) -> None:  # noqa: ARG001
    async with trio.open_nursery() as nursery:
        driver = MemoryFleet(nursery).add("a:1")
        signs = LifeSigns(manager.listened_to(), driver, lambda: "waits")
        nursery.start_soon(signs.run)
        await trio.sleep(READY_PATIENCE_S - 0.1)
        assert "READY=1" not in manager.heard()
        await trio.sleep(STATUS_S)
        assert manager.heard() == ["READY=1"]
        signs.ready()
        assert manager.heard() == []
        nursery.cancel_scope.cancel()


@pytest.mark.trio
async def test_a_reload_begins_and_ends(manager: Manager, autojump_clock: Clock) -> None:  # noqa: ARG001
    async with trio.open_nursery() as nursery:
        driver = MemoryFleet(nursery).add("a:1")
        signs = LifeSigns(manager.listened_to(), driver, lambda: "at work")
        signs.reloading()
        (said,) = manager.heard()
        assert said.startswith("RELOADING=1\nMONOTONIC_USEC=")
        signs.reloaded("configuration 2 is in force")
        assert manager.heard() == ["READY=1\nSTATUS=configuration 2 is in force"]
        nursery.cancel_scope.cancel()
