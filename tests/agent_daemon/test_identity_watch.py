"""Certificates, keys, authorities and lists of revoked ones are replaced under a running agent; what it says of it."""

from __future__ import annotations

import logging
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from agent_toml import agent_toml

from agent import ConfigError, check_revocations, load_config, load_identity
from agent.daemon.data_directory import DataDirectory
from agent.daemon.identity_watch import IdentityWatch
from agent.daemon.trust import kept_revocations
from overlay import Authority, Peer, Revocation, Revocations, Transport

AUTHORITY = Authority.create("shop")
OTHER = Authority.create("shop")
CONFIG = agent_toml() + 'crl = "crl.pem"\n'


class Nobody:
    """Whom a transport without links tells nothing."""

    def received(self, peer: Peer, data: bytes) -> None: ...
    def unreachable(self, peer: Peer, reason: str) -> None: ...
    def disconnected(self, peer: Peer) -> None: ...
    def restarted(self, peer: Peer) -> None: ...


class Watched:
    """An agent's files, and the watch over them at a time of day of the test's choice."""

    def __init__(self, folder: Path, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.INFO)
        self.folder = folder
        self._caplog = caplog
        self._writes = 0
        self.now = datetime.now(UTC)
        self.give(AUTHORITY, AUTHORITY)
        self.give_list(1)
        (folder / "agent.toml").write_text(CONFIG)
        config = load_config(folder / "agent.toml")
        identity = load_identity(config)
        self.revocations = Revocations(identity.authorities)
        self.transport = Transport(
            identity, config.listen, incarnation=1, receiver=Nobody(), revocations=self.revocations
        )
        self._watch = IdentityWatch(config, self.transport, lambda: self.now)

    def write(self, name: str, content: bytes) -> None:
        """Writes a file; its time of change differs from the last one's, however fast the test is."""
        self._writes += 1
        path = self.folder / name
        path.write_bytes(content)
        path.chmod(0o600)
        os.utime(path, ns=(self._writes, self._writes))

    def give(self, issuer: Authority, *trusted: Authority, name: str = "web-5", node_id: int = 5, **dates: Any) -> None:
        credentials = issuer.issue(name, node_id=node_id, **dates)
        self.write("ca.pem", b"".join(authority.certificate_pem for authority in trusted))
        self.write("agent.key", credentials.key_pem)
        self.write("agent.pem", credentials.certificate_pem)

    def give_list(self, number: int, *serials: int, authority: Authority = AUTHORITY) -> None:
        revoked = [Revocation(serial, datetime.now(UTC)) for serial in serials]
        self.write("crl.pem", authority.revocation_list(number, revoked))

    def look(self, times: int = 1) -> list[str]:
        """What a look makes it say, with the reasons."""
        self._caplog.clear()
        for _ in range(times):
            self._watch.look()
        return [
            f"{record.getMessage()}: {fields['why']}" if "why" in fields else record.getMessage()
            for record in self._caplog.records
            for fields in (getattr(record, "fields", {}),)
        ]

    @property
    def serial(self) -> int:
        return self.transport.admission.trust.identity.claims.serial


@pytest.fixture
def watched(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Watched:
    watched = Watched(tmp_path, caplog)
    assert watched.look() == ["took a list of revoked certificates"]
    return watched


def test_files_that_stay_are_left_alone(watched: Watched) -> None:
    assert watched.look(3) == []
    (watched.folder / "agent.pem").touch()
    assert watched.look(3) == []


def test_a_new_certificate_is_taken(watched: Watched) -> None:
    before = watched.serial
    watched.give(AUTHORITY, AUTHORITY)
    assert watched.look(2) == ["identity replaced"]
    assert watched.serial != before


def test_files_that_do_not_fit_together_yet_are_said_once_and_taken_when_they_do(watched: Watched) -> None:
    before = watched.serial
    new = AUTHORITY.issue("web-5", node_id=5)
    watched.write("agent.key", new.key_pem)
    (said,) = watched.look(3)
    assert said.startswith("new identity not taken: ")
    assert "agent.toml:9: identity.key: " in said
    assert "does not belong to the certificate" in said
    assert watched.serial == before
    watched.write("agent.pem", new.certificate_pem)
    assert watched.look(2) == ["identity replaced"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"name": "web-6"}, "is that of 'web-6'"),
        ({"node_id": 6}, "the new certificate is that of another agent"),
        ({"days": 1, "not_before": datetime.now(UTC) - timedelta(days=3)}, "expired at"),
        ({"not_before": datetime.now(UTC) + timedelta(days=3)}, "not valid before"),
    ],
)
def test_a_certificate_that_will_not_do_is_not_taken(watched: Watched, options: dict[str, Any], words: str) -> None:
    before = watched.serial
    watched.give(AUTHORITY, AUTHORITY, **options)
    (said,) = watched.look(3)
    assert said.startswith("new identity not taken: ")
    assert words in said
    assert watched.serial == before


def test_files_that_are_gone_leave_the_agent_as_it_is(watched: Watched) -> None:
    before = watched.serial
    for name in ("ca.pem", "agent.pem", "agent.key", "crl.pem"):
        (watched.folder / name).unlink()
    said = watched.look(3)
    assert [line.partition(":")[0] for line in said] == ["new identity not taken", "revocations not taken"]
    assert watched.serial == before
    assert watched.revocations.lists[0].number == 1


def test_a_key_that_everybody_may_read_is_not_taken(watched: Watched) -> None:
    watched.give(AUTHORITY, AUTHORITY)
    (watched.folder / "agent.key").chmod(0o644)
    (said,) = watched.look(2)
    assert "identity.key: " in said
    assert "is open to everybody on this machine (mode 644)" in said
    (watched.folder / "agent.key").chmod(0o600)
    assert watched.look() == ["identity replaced"]


def test_the_authority_is_replaced_in_steps(watched: Watched) -> None:
    watched.give(AUTHORITY, AUTHORITY, OTHER)
    assert watched.look() == ["identity replaced"]
    watched.give(OTHER, AUTHORITY, OTHER)
    assert watched.look() == ["identity replaced"]
    watched.give_list(1, 11, authority=OTHER)
    assert watched.look() == ["took a list of revoked certificates"]
    assert [found.number for found in watched.revocations.lists] == [1, 1]
    watched.give_list(1, authority=AUTHORITY)  # somebody forgets this one
    watched.look()
    watched.give(OTHER, OTHER)
    assert watched.look()[0] == "identity replaced"
    assert list(watched.revocations.numbers.values()) == [1]
    assert watched.revocations.is_revoked(11)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (AUTHORITY.revocation_list(0, []), "the list is not newer than the one there is: number 0"),
        (OTHER.revocation_list(9, []), "the list is of another authority: "),
        (AUTHORITY.revocation_list(9, [])[:-30], "holds no list of revoked certificates (PEM)"),
        (b"", "holds no list of revoked certificates (PEM)"),
        (b"\x30\x82\x01", "not a list of revoked certificates"),
        (b"\x30" * (17 << 20), "is larger than 16,777,216 bytes"),
    ],
)
def test_a_list_that_will_not_do_is_said_once(watched: Watched, content: bytes, words: str) -> None:
    watched.write("crl.pem", content)
    (said,) = watched.look(3)
    assert said.startswith("revocations not taken: ")
    assert f"crl.pem: {words}" in said
    assert watched.revocations.lists[0].number == 1


def test_a_newer_list_is_taken(watched: Watched) -> None:
    watched.give_list(2, 11)
    assert watched.look(2) == ["took a list of revoked certificates"]
    assert watched.revocations.is_revoked(11)


def test_it_warns_a_fortnight_before_a_certificate_runs_out_once_a_day(watched: Watched) -> None:
    expires = watched.transport.admission.trust.identity.expires
    for left, said in [
        (timedelta(days=15), []),
        (timedelta(days=13, hours=23), ["certificate expires soon"]),
        (timedelta(days=13, hours=1), []),
        (timedelta(days=12, hours=22), ["certificate expires soon"]),
        (timedelta(days=-1), ["certificate has expired: peers refuse this agent"]),
    ]:
        watched.now = expires - left
        assert watched.look(2) == said, left


def test_lists_outlive_the_agent(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    watched = Watched(tmp_path, caplog)
    identity = watched.transport.admission.trust.identity
    with DataDirectory(tmp_path / "data") as directory:
        assert not kept_revocations(directory, identity).lists
        revocations = kept_revocations(directory, identity)
        revocations.take(AUTHORITY.revocation_list(7, [Revocation(11, datetime.now(UTC))]))
        assert kept_revocations(directory, identity).is_revoked(11)
        (tmp_path / "data" / "revoked.pem").write_bytes(b"nonsense" + OTHER.revocation_list(9, []))
        assert not kept_revocations(directory, identity).lists  # and the agent starts all the same


def test_a_list_of_another_authority_is_told_before_the_agent_starts(tmp_path: Path) -> None:
    AUTHORITY.issue("web-5").save(tmp_path / "agent.pem", tmp_path / "agent.key")
    (tmp_path / "ca.pem").write_bytes(AUTHORITY.certificate_pem)
    (tmp_path / "agent.toml").write_text(CONFIG)
    config = load_config(tmp_path / "agent.toml")
    for content, words in [
        (None, "No such file or directory"),
        (b"nonsense", "holds no list of revoked certificates (PEM)"),
        (OTHER.revocation_list(9, []), "the list is of another authority"),
    ]:
        if content is not None:
            (tmp_path / "crl.pem").write_bytes(content)
        with pytest.raises(ConfigError) as caught:
            check_revocations(config, load_identity(config))
        assert f"agent.toml:10: identity.crl: {tmp_path}/crl.pem: {words}" in str(caught.value)
