"""The service of the authority over real TLS: whom it admits, whom it renews, and what it makes of strangers."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import trio
from authority_world import AuthorityWorld, identity_in, plain_context, utc_now
from cryptography import x509

from agent.enrolment.client import EnrolmentError, NewIdentity, enrol, renew
from agent.enrolment.identity_files import put_identity
from agent.enrolment.messages import LINE_BYTES_MAX
from agent.enrolment.service import CONNECTIONS_MAX
from agent.enrolment.token import read_token

pytestmark = pytest.mark.trio
ENDED = suppress(trio.BrokenResourceError, trio.ClosedResourceError, ssl.SSLError, OSError)


@pytest.fixture
def world(tmp_path: Path) -> AuthorityWorld:
    return AuthorityWorld(tmp_path)


async def asked(ask: Callable[..., NewIdentity], *arguments: Any) -> NewIdentity:
    return await trio.to_thread.run_sync(lambda: ask(*arguments))


async def complaint(ask: Callable[..., NewIdentity], *arguments: Any) -> str:
    with pytest.raises(EnrolmentError) as caught:
        await asked(ask, *arguments)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def renewal(folder: Path) -> tuple[Path, Path, Path, None]:
    return folder / "ca.pem", folder / "agent.pem", folder / "agent.key", None


async def test_a_token_admits_an_agent_whose_key_stays_with_it(world: AuthorityWorld) -> None:
    folder = world.folder / "new"
    folder.mkdir()
    async with world.serving() as address:
        found = await asked(enrol, address, read_token(world.token()), "web-5")
    put_identity(found, folder / "ca.pem", folder / "agent.pem", folder / "agent.key")
    identity = identity_in(folder)
    assert (identity.fleet, identity.name) == ("shop", "web-5")
    assert (folder / "agent.key").stat().st_mode & 0o777 == 0o600
    (issued,) = world.directory.issued()
    assert (issued.name, int(issued.node_id, 16)) == ("web-5", identity.node_id)
    assert world.lines == [f"admitted web-5 from 127.0.0.1, id {issued.node_id}"]
    assert not [path for path in world.directory.path.iterdir() if b"BEGIN PRIVATE" in path.read_bytes()][1:]


async def test_used_expired_and_foreign_tokens_are_told_apart(world: AuthorityWorld, tmp_path: Path) -> None:
    other = AuthorityWorld(tmp_path / "other", "market")
    token = read_token(world.token())
    async with world.serving() as address:
        await asked(enrol, address, token, "web-5")
        assert f"{address}: this token was used already, by web-5" in await complaint(enrol, address, token, "web-6")
        late = read_token(world.token(minutes=1, ago=timedelta(minutes=5)))
        assert "this token expired at" in await complaint(enrol, address, late, "web-6")
        foreign = await complaint(enrol, address, read_token(other.token()), "web-6")
        assert "is the authority of fleet 'shop', and another one than that which made this token" in foreign
        odd = await complaint(enrol, address, read_token(world.token()), "web 6; \n")
        assert "an agent's name is" in odd
    assert len(world.directory.issued()) == 1


@pytest.mark.parametrize(
    ("off", "words"), [(timedelta(hours=2), "2.0 h ahead of"), (timedelta(days=-40 * 365), "14600.0 d behind")]
)
async def test_a_wrong_clock_is_said_before_the_token_is_used_up(
    world: AuthorityWorld, off: timedelta, words: str
) -> None:
    token = read_token(world.token())
    async with world.serving(now=lambda: utc_now() - off) as address:
        found = await complaint(enrol, address, token, "web-5")
        here, there = utc_now(), utc_now() - off
        assert found.startswith(f"the clock of this machine ({here:%Y-%m-%d %H:}")
        assert f"is {words} that of {address} ({there:%Y-%m-%d}" in found
        assert found.endswith(
            ": set the wrong one (timedatectl set-ntp true), then enrol again; the token is not used up"
        )
    async with world.serving() as address:
        await asked(enrol, address, token, "web-5")


async def test_an_authority_of_a_later_release_is_told(world: AuthorityWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    token = read_token(world.token())
    async with world.serving() as address:
        monkeypatch.setattr("agent.enrolment.client.VERSION", 0)
        found = await complaint(enrol, address, token, "web-5")
        assert found == f"{address}: speaks version 1 of enrolment, and this ELF 0: upgrade it, then again"
        monkeypatch.undo()
        await asked(enrol, address, token, "web-5")


async def test_a_certificate_is_renewed_by_itself(world: AuthorityWorld) -> None:
    folder = world.agent("web-5", days=1.0)
    before, key = identity_in(folder), (folder / "agent.key").read_bytes()
    async with world.serving(days=90.0) as address:
        found = await asked(renew, address, *renewal(folder))
    put_identity(found, folder / "ca.pem", folder / "agent.pem", folder / "agent.key")
    after = identity_in(folder)
    assert (after.node_id, after.name) == (before.node_id, before.name)
    assert after.expires - before.expires > timedelta(days=80)
    assert (folder / "agent.key").read_bytes() != key


async def test_an_encrypted_key_stays_encrypted(world: AuthorityWorld) -> None:
    folder = world.agent("web-5", key_password=b"correct horse")
    password = folder / "password"
    password.write_text("correct horse\n")
    password.chmod(0o600)
    async with world.serving() as address:
        found = await asked(renew, address, *renewal(folder)[:3], password)
    assert b"ENCRYPTED" in found.key_pem


async def test_who_may_not_renew_is_told_why(world: AuthorityWorld, tmp_path: Path) -> None:
    other = AuthorityWorld(tmp_path / "other")
    expired = world.agent("old", not_before=utc_now() - timedelta(days=9), days=1.0)
    revoked = world.agent("web-6")
    serial = identity_in(revoked).claims.serial
    world.directory.revoke(world.authority, [serial], x509.ReasonFlags.unspecified)
    async with world.serving() as address, other.serving() as elsewhere:
        assert "is revoked" in await complaint(renew, address, *renewal(revoked))
        assert "it cannot renew itself any more: enrol this agent anew" in await complaint(
            renew, address, *renewal(expired)
        )
        foreign = await complaint(renew, elsewhere, *renewal(revoked))
        assert f"{elsewhere}: is no service of this agent's authority" in foreign
    assert "is elf ca serve running there?" in await complaint(renew, address, *renewal(revoked))


async def test_an_agent_cannot_pass_for_the_authoritys_service(world: AuthorityWorld) -> None:
    folder = world.agent("evil")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "agent.pem", folder / "agent.key")
    greeting = b'{"type":"greeting","fleet":"shop","authority":%s,"time_ms":0}\n'
    pem = world.authority.certificate_pem.replace(b"\n", b"\\n")

    async def serve(plain: trio.SocketStream) -> None:
        stream = trio.SSLStream(plain, context, server_side=True)
        with trio.move_on_after(5):
            await stream.do_handshake()
            await stream.send_all(greeting % (b'"' + pem + b'"'))
            with suppress(trio.BrokenResourceError):
                assert not await stream.receive_some(), "no secret is sent"

    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, serve, listeners)
        address = f"127.0.0.1:{listeners[0].socket.getsockname()[1]}"
        found = await complaint(enrol, address, read_token(world.token()), "web-5")
        assert found == f"{address}: is no authority's service: its certificate has the role agent"
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n",
        b"garbage\n",
        b"\xff" * 100_000,
        b'{"type":"enrol","secret":"xyz","name":"a","request":"b"}\n',
        b'{"type":"enrol","secret":"00112233445566778899aabbccddeeff","name":"a","request":"b"}\n',
        b'{"type":"renew","request":"b"}\n',
        b"[" * 16_000 + b"\n",
    ],
)
async def test_strangers_get_nothing_and_the_service_lives_on(world: AuthorityWorld, data: bytes) -> None:
    async with world.serving() as address:
        host, port = address.split(":")
        for tls in (True, False):
            plain = await trio.open_tcp_stream(host, int(port))
            stream = trio.SSLStream(plain, plain_context(), https_compatible=True) if tls else plain
            with trio.move_on_after(0.3), ENDED:
                await stream.send_all(data or b"x")
                while await stream.receive_some():
                    pass
            await trio.aclose_forcefully(stream)
        await asked(enrol, address, read_token(world.token()), "web-5")
    assert len(world.directory.issued()) == 1


async def test_who_says_nothing_makes_room_in_a_while(world: AuthorityWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent.enrolment.service.PATIENCE_S", 0.2)
    async with world.serving() as address:
        host, port = address.split(":")
        with trio.fail_after(10):
            idle = [await trio.open_tcp_stream(host, int(port)) for _ in range(CONNECTIONS_MAX)]
            for stream in idle:
                with ENDED:
                    assert await stream.receive_some() == b""
                await trio.aclose_forcefully(stream)
            await asked(enrol, address, read_token(world.token()), "web-5")


async def test_a_service_whose_output_nobody_takes_goes_on(world: AuthorityWorld) -> None:
    def tell(_line: str) -> None:
        raise BrokenPipeError("nobody reads")

    world.tell = tell
    async with world.serving() as address:
        token = read_token(world.token())
        await asked(enrol, address, token, "web-5")
        assert "was used already" in await complaint(enrol, address, token, "web-6")
        await asked(enrol, address, read_token(world.token()), "web-6")


async def test_an_endless_line_ends_its_connection(world: AuthorityWorld) -> None:
    async with world.serving() as address:
        host, port = address.split(":")
        stream = trio.SSLStream(await trio.open_tcp_stream(host, int(port)), plain_context(), https_compatible=True)
        with trio.fail_after(10), ENDED:
            while True:
                await stream.send_all(b"x" * LINE_BYTES_MAX)
        await trio.aclose_forcefully(stream)
        await asked(enrol, address, read_token(world.token()), "web-5")


async def test_too_many_connections_are_closed_at_once(world: AuthorityWorld) -> None:
    async with world.serving() as address:
        host, port = address.split(":")
        idle = [await trio.open_tcp_stream(host, int(port)) for _ in range(CONNECTIONS_MAX)]
        with trio.fail_after(5):
            refused = await trio.open_tcp_stream(host, int(port))
            assert await refused.receive_some() == b""
        await refused.aclose()
        for stream in idle:
            await stream.aclose()
        await trio.testing.wait_all_tasks_blocked()
        await asked(enrol, address, read_token(world.token()), "web-5")
