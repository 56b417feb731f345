"""Who may open a socket: those whom the rules of access name, and nobody else."""

from __future__ import annotations

import grp
import os
import pwd
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from agent.access.rules import AccessRole, AccessRule, standing_rules
from agent.access.socket_acl import ENTRIES_MAX, open_to
from agent.control.server import Connection, ControlServer

CONNECT = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])"
STRANGER = 4_123_456
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")


@pytest.fixture
def path() -> Iterator[Path]:
    """A socket that listens, in a folder that everybody may enter."""
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listener:
        path = Path(folder, "socket")
        path.parent.chmod(0o755)
        mask = os.umask(0o117)
        listener.bind(str(path))
        os.umask(mask)
        listener.listen()
        yield path


def may_open(path: Path, *, user: int = STRANGER, group: int = STRANGER) -> bool:
    command = ["/usr/bin/python3" if Path("/usr/bin/python3").exists() else sys.executable, "-I", "-c", CONNECT, path]
    return subprocess.run(command, user=user, group=group, extra_groups=[], capture_output=True).returncode == 0


def test_members_of_a_named_group_and_named_users_open_it_and_others_do_not(path: Path) -> None:
    daemon, games = pwd.getpwnam("daemon"), grp.getgrnam("games")
    open_to(path, [AccessRule(AccessRole.OPERATE, ("daemon", "no-such-user"), ("games", "no-such-group", "4123460"))])
    assert may_open(path, group=games.gr_gid)
    assert may_open(path, group=4_123_460)
    assert may_open(path, user=daemon.pw_uid)
    assert not may_open(path)


def test_rules_that_are_gone_close_it_again(path: Path) -> None:
    open_to(path, [AccessRule(AccessRole.READ, groups=("games",))])
    open_to(path, standing_rules(os.geteuid(), os.getegid(), [AccessRule(AccessRole.READ, creators=("maria",))]))
    assert not may_open(path, group=grp.getgrnam("games").gr_gid)
    assert may_open(path, user=0)


def test_a_rule_for_everybody_opens_it_to_everybody(path: Path) -> None:
    open_to(path, [AccessRule(AccessRole.READ, users=("*",))])
    assert may_open(path)


def test_more_names_than_a_list_takes_leave_it_to_its_user_and_group(path: Path) -> None:
    many = tuple(str(number) for number in range(STRANGER, STRANGER + ENTRIES_MAX + 1))
    with pytest.raises(OSError, match="name more than 1,024 users and groups"):
        open_to(path, [AccessRule(AccessRole.READ, users=many)])
    assert not may_open(path)


@pytest.mark.trio
async def test_a_server_keeps_its_socket_to_the_rules_in_force(path: Path) -> None:
    rules = [AccessRule(AccessRole.READ, groups=("games",))]
    served, group = path.with_name("served"), grp.getgrnam("games").gr_gid
    server = ControlServer(served, _no_answer, rules=lambda: rules)

    async def until(opens: bool) -> None:
        with trio.fail_after(10):
            while await trio.to_thread.run_sync(lambda: may_open(served, group=group)) is not opens:
                pass

    async with trio.open_nursery() as nursery:
        await nursery.start(server.serve)
        await until(True)
        rules.clear()
        server.rules_changed()
        await until(False)
        nursery.cancel_scope.cancel()


async def _no_answer(_request: object, _connection: Connection) -> None:
    return
