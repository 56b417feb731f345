"""Agents renew their certificates in time, whatever happens in the midst of it."""

from __future__ import annotations

import logging
import random
import shutil
from datetime import timedelta
from pathlib import Path

import pytest
import trio
from authority_world import AuthorityWorld, identity_in, utc_now

from agent.configuration.config import IdentityConfig
from agent.enrolment.client import renew
from agent.enrolment.identity_files import complete_renewal, put_identity
from agent.enrolment.renewal import Renewal


def files(folder: Path, address: str | None) -> IdentityConfig:
    return IdentityConfig(folder / "ca.pem", folder / "agent.pem", folder / "agent.key", None, address, None)


def renewing(folder: Path, address: str | None) -> Renewal:
    return Renewal(files(folder, address), lambda: identity_in(folder), random.Random(1))


@pytest.mark.trio
async def test_a_certificate_is_renewed_when_a_third_of_its_time_is_left(tmp_path: Path) -> None:
    world = AuthorityWorld(tmp_path)
    half = world.agent("half", not_before=utc_now() - timedelta(days=5), days=10.0)
    late = world.agent("late", not_before=utc_now() - timedelta(days=7), days=10.0)
    before = identity_in(half).claims
    async with world.serving(days=10.0) as address:
        await renewing(half, address).look()
        await renewing(late, address).look()
    assert identity_in(half).claims == before
    assert identity_in(late).expires > utc_now() + timedelta(days=9)


@pytest.mark.trio
async def test_an_authority_that_is_not_there_changes_nothing_and_is_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    world = AuthorityWorld(tmp_path)
    folder = world.agent("web-5", not_before=utc_now() - timedelta(days=9), days=10.0)
    async with world.serving() as address:
        pass
    watch = renewing(folder, address)
    before = identity_in(folder).claims
    with caplog.at_level(logging.WARNING, "elf.agent"):
        await watch.look()
        await watch.look()
    (record,) = [one for one in caplog.records if one.getMessage() == "certificate not renewed, trying again"]
    assert "is elf ca serve running there?" in record.fields["why"]  # type: ignore[attr-defined]
    assert identity_in(folder).claims == before


@pytest.mark.trio
async def test_without_a_service_nothing_is_renewed(tmp_path: Path) -> None:
    world = AuthorityWorld(tmp_path)
    with trio.fail_after(1):
        await renewing(world.agent("web-5"), None).run()


@pytest.mark.trio
@pytest.mark.parametrize("moved", ["neither", "the key"])
async def test_an_end_in_the_midst_of_a_renewal_leaves_an_identity(tmp_path: Path, moved: str) -> None:
    world = AuthorityWorld(tmp_path)
    folder = world.agent("web-5", days=1.0)
    new = tmp_path / "new"
    shutil.copytree(folder, new)
    async with world.serving(days=90.0) as address:
        arguments = (address, folder / "ca.pem", folder / "agent.pem", folder / "agent.key", None)
        found = await trio.to_thread.run_sync(lambda: renew(*arguments))
    put_identity(found, new / "ca.pem", new / "agent.pem", new / "agent.key")
    shutil.copy(new / "agent.pem", folder / "agent.pem.next")
    shutil.copy(new / "agent.key", folder / ("agent.key" if moved == "the key" else "agent.key.next"))
    complete_renewal(folder / "agent.pem", folder / "agent.key")
    assert identity_in(folder).claims == identity_in(new).claims
    assert {path.name for path in folder.iterdir()} == {"ca.pem", "agent.pem", "agent.key"}


def test_a_key_alone_is_not_put_in_place(tmp_path: Path) -> None:
    world = AuthorityWorld(tmp_path)
    folder = world.agent("web-5")
    before = identity_in(folder).claims
    (folder / "agent.key.next").write_bytes(b"half a k")
    complete_renewal(folder / "agent.pem", folder / "agent.key")
    assert identity_in(folder).claims == before
