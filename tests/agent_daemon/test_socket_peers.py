"""Clients of the control socket, as the kernel vouches for them."""

from __future__ import annotations

import grp
import os
import pwd
from pathlib import Path

import pytest
import trio

from agent.access.rules import AccessRole, AccessRule
from agent.control.socket_peers import PeerCredentials, SocketPeers, unknown_names


@pytest.mark.trio
async def test_a_client_has_its_user_and_groups_by_name_and_number(tmp_path: Path) -> None:
    listener = trio.socket.socket(trio.socket.AF_UNIX)
    await listener.bind(str(tmp_path / "socket"))
    listener.listen()
    with listener:
        async with await trio.open_unix_socket(tmp_path / "socket"):
            accepted, _ = await listener.accept()
            async with trio.SocketStream(accepted) as stream:
                found = await SocketPeers("web-1").principal(stream)
    user = pwd.getpwuid(os.geteuid()).pw_name
    assert (found.name, found.owner) == (user, f"{user}@web-1")
    assert found.users == {user, str(os.geteuid())}
    assert found.groups >= {str(os.getegid()), grp.getgrgid(os.getegid()).gr_name, *map(str, os.getgroups())}
    assert (found.creators, found.key) == (set(), b"")


@pytest.mark.trio
async def test_users_and_groups_without_names_are_their_numbers() -> None:
    found = await SocketPeers("web-1").named(PeerCredentials(4_123_456, 4_123_457, (4_123_458,)))
    assert (found.name, found.owner) == ("4123456", "4123456@web-1")
    assert (found.users, found.groups) == ({"4123456"}, {"4123457", "4123458"})


@pytest.mark.trio
async def test_groups_that_the_kernel_does_not_list_are_looked_up() -> None:
    own = pwd.getpwuid(os.geteuid())
    found = await SocketPeers("web-1").named(PeerCredentials(own.pw_uid, own.pw_gid, None))
    assert found.groups >= set(map(str, os.getgrouplist(own.pw_name, own.pw_gid)))


@pytest.mark.trio
async def test_names_that_look_like_numbers_stand_for_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: pwd.struct_passwd(("0", "x", uid, uid, "", "/", "/bin/sh")))
    found = await SocketPeers("web-1").named(PeerCredentials(4_123_456, 4_123_457, ()))
    assert found.users == {"4123456"}


def test_names_that_the_machine_does_not_have() -> None:
    user = pwd.getpwuid(os.geteuid()).pw_name
    rules = (
        AccessRule(AccessRole.READ, users=(user, "no-such-user", "4123456", "*")),
        AccessRule(AccessRole.READ, groups=("no-such-group", "no-such-user"), creators=("maria",)),
    )
    assert unknown_names(rules) == ["user no-such-user", "group no-such-group", "group no-such-user"]
