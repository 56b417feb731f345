"""`elf creator` as creators and who holds the authority use it, and the files of it as what signs jobs reads them."""

from __future__ import annotations

import json
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from elf_command import elf, secret

from elf.errors import ElfError
from elf.signing.creator import load_creator
from overlay import Authority

PASSWORD = "correct horse"
NEVER_THERE = "creator.pem: there is no certificate: put the one here that elf creator trust makes of creator.pub"


def creator(folder: Path, *arguments: str) -> str:
    """Standard output of a command that works."""
    code, out, complaint = elf(folder, "creator", *arguments)
    assert (code, complaint) == (0, "")
    return out


def complaint(folder: Path, *arguments: str) -> str:
    """The one line that says why a command does not."""
    code, out, said = elf(folder, "creator", *arguments)
    assert code in (1, 2)
    assert (out, said.count("\n")) == ("", 1)
    return said.removeprefix("elf: ").rstrip("\n")


def listed(folder: Path) -> list[dict[str, Any]]:
    lines = creator(folder, "list", "--ca", "ca", "--output", "json").splitlines()
    return [json.loads(line) for line in lines]


def fault(directory: Path, password: bytes | None = None) -> str:
    """Why nobody can sign with what is in a folder."""
    with pytest.raises(ElfError) as caught:
        load_creator(directory, password)
    assert "\n" not in str(caught.value)
    return str(caught.value).removeprefix(f"{directory}/")


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an authority without a password in `ca`; `maria` is where creators' files are looked for."""
    assert elf(tmp_path, "ca", "init", "ca", "--fleet", "shop", "--no-password")[0] == 0
    monkeypatch.setenv("ELF_CREATOR", str(tmp_path / "maria"))
    return tmp_path


@pytest.fixture
def maria(shop: Path) -> Path:
    """The folder of a creator whom the fleet trusts."""
    creator(shop, "init", "maria")
    creator(shop, "trust", "maria/creator.pub", "--name", "maria", "--ca", "ca")
    return shop / "maria"


def test_in_three_steps_somebody_can_sign(shop: Path) -> None:
    said = creator(shop, "init", "maria")
    assert said.splitlines() == [
        f"{shop}/maria/creator.key: a creator's key; keep it to yourself",
        f"next: give {shop}/maria/creator.pub to who holds the fleet's authority, "
        "for: elf creator trust creator.pub --name maria --ca CA_DIR",
    ]
    (shop / "creator.pub").write_bytes((shop / "maria" / "creator.pub").read_bytes())
    said = creator(shop, "trust", "creator.pub", "--name", "maria", "--ca", "ca", "--days", "30")
    assert said.startswith("creator.pem: creator maria of fleet shop, key ")
    assert "next: give it to maria, who puts it beside creator.key as creator.pem\n" in said
    assert "ca/ca.pem too, to ask agents from elsewhere" in said
    (shop / "creator.pem").rename(shop / "maria" / "creator.pem")
    signer = load_creator()
    assert (signer.name, signer.fleet, len(signer.public_key)) == ("maria", "shop", 32)
    Ed25519PublicKey.from_public_bytes(signer.public_key).verify(signer.sign(b"a job"), b"a job")
    certificate = x509.load_der_x509_certificate(signer.certificate)
    assert certificate.not_valid_after_utc < datetime.now(UTC) + timedelta(days=31)
    assert "PrivateKey" not in repr(signer)


def test_a_key_is_its_owners_alone_and_never_written_over(shop: Path) -> None:
    creator(shop, "init", "maria")
    key, public = (shop / "maria" / name for name in ("creator.key", "creator.pub"))
    assert [stat.S_IMODE(path.stat().st_mode) for path in (shop / "maria", key, public)] == [0o700, 0o600, 0o644]
    assert isinstance(serialization.load_pem_private_key(key.read_bytes(), None), Ed25519PrivateKey)
    assert public.read_bytes().startswith(b"creator: maria\n-----BEGIN PUBLIC KEY-----\n")
    assert b"PRIVATE" not in public.read_bytes()
    before = key.read_bytes()
    assert complaint(shop, "init") == f"{key}: is already there and is not written over"
    key.unlink()
    assert complaint(shop, "init") == f"{public}: is already there and is not written over"
    creator(shop, "init", "--directory", "other")
    assert (shop / "other" / "creator.key").read_bytes() != before
    assert (shop / "other" / "creator.pub").read_bytes().startswith(b"-----BEGIN PUBLIC KEY-----")


def test_without_a_folder_named_it_is_in_the_home_directory(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ELF_CREATOR")
    monkeypatch.setenv("HOME", str(shop))
    creator(shop, "init")
    assert (shop / ".config" / "elf" / "creator" / "creator.key").exists()


def test_a_key_may_need_a_password(shop: Path) -> None:
    password = secret(shop / "password", PASSWORD)
    creator(shop, "init", "--password-file", password)
    assert (shop / "maria" / "creator.key").read_bytes().startswith(b"-----BEGIN ENCRYPTED PRIVATE KEY-----")
    creator(shop, "trust", "maria/creator.pub", "--name", "maria", "--ca", "ca")
    assert fault(shop / "maria") == "creator.key: is protected by a password, which is needed"
    assert fault(shop / "maria", b"wrong horse") == "creator.key: that is not its password"
    assert load_creator(shop / "maria", PASSWORD.encode()).name == "maria"
    short = secret(shop / "short", "short")
    assert complaint(shop, "init", "--directory", "x", "--password-file", short).startswith("the password is too short")
    assert not (shop / "x").exists()


def test_the_authoritys_key_needs_its_password_for_creators_too(tmp_path: Path) -> None:
    password = secret(tmp_path / "password", PASSWORD)
    elf(tmp_path, "ca", "init", "ca", "--fleet", "shop", "--password-file", password)
    creator(tmp_path, "init", "--directory", "maria")
    trust = ("trust", "maria/creator.pub", "--name", "maria", "--ca", "ca")
    assert "give --password-file FILE" in complaint(tmp_path, *trust)
    creator(tmp_path, *trust, "--password-file", password)
    creator(tmp_path, "list", "--ca", "ca")
    creator(tmp_path, "revoke", "maria", "--ca", "ca", "--password-file", password)


def test_who_cannot_sign_is_told_what_to_do(shop: Path, maria: Path) -> None:
    assert fault(shop / "nobody") == "creator.key: there is no creator's key: elf creator init makes one"
    good = (maria / "creator.pem").read_bytes()
    (maria / "creator.pem").unlink()
    assert fault(maria).startswith(NEVER_THERE)
    (maria / "creator.pem").write_text("nonsense")
    assert fault(maria) == "creator.pem: not a certificate (PEM)"
    elf(shop, "ca", "issue", "ca", "web-5", "--out", "web-5")
    (maria / "creator.pem").write_bytes((shop / "web-5" / "agent.pem").read_bytes())
    assert fault(maria) == "creator.pem: not a creator's certificate: web-5: its role is agent"
    creator(shop, "init", "--directory", "oleg")
    creator(shop, "trust", "oleg/creator.pub", "--name", "oleg", "--ca", "ca")
    (maria / "creator.pem").write_bytes((shop / "oleg" / "creator.pem").read_bytes())
    assert fault(maria) == f"creator.key: does not belong to {maria}/creator.pem"
    (maria / "creator.pem").write_bytes(good)
    for mode in (0o644, 0o604, 0o602):
        (maria / "creator.key").chmod(mode)
        assert fault(maria).startswith(f"creator.key: is open to everybody on this machine (mode {mode:03o})")
    (maria / "creator.key").chmod(0o600)
    load_creator(maria)
    agents = (shop / "web-5" / "agent.key").read_bytes()
    (maria / "creator.key").write_bytes(agents)
    assert fault(maria) == "creator.key: not a creator's key: it is no Ed25519 key"


@pytest.mark.parametrize(("start", "words"), [(-2, "creator's certificate expired"), (1, "not yet valid")])
def test_a_certificate_out_of_its_time_signs_nothing(maria: Path, start: int, words: str) -> None:
    public_key = load_creator(maria).public_key
    not_before = datetime.now(UTC) + timedelta(days=start)
    pem = Authority.create("shop").trust("maria", public_key, days=1, not_before=not_before)
    (maria / "creator.pem").write_bytes(pem)
    assert words in fault(maria)


def test_what_is_no_creators_key_is_not_trusted(shop: Path, maria: Path) -> None:
    elf(shop, "ca", "issue", "ca", "web-5", "--out", "web-5")
    rsa = Authority.create("shop")._key.public_key()
    pem = rsa.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    (shop / "other.pub").write_bytes(pem)
    (shop / "long.pub").write_bytes(b"x" * 5000 + (maria / "creator.pub").read_bytes())

    def refused(file: str, name: str = "oleg", ca: str = "ca") -> str:
        return complaint(shop, "trust", file, "--name", name, "--ca", ca, "--out", "out.pem")

    assert refused("nowhere") == "nowhere: No such file or directory"
    assert refused("maria/creator.key").startswith("maria/creator.key: a private key: its owner keeps it")
    for file in ("web-5/agent.pem", "long.pub"):
        assert refused(file) == f"{file}: not a public key (PEM): elf creator init makes one, creator.pub"
    assert refused("other.pub") == "other.pub: not an Ed25519 key: elf creator init makes one, creator.pub"
    assert refused("maria/creator.pub") == "ca: that is the key of the creator maria, not of oleg"
    assert refused("maria/creator.pub", "a\nb").startswith("a creator's name is 1 to 64 printable characters")
    assert refused("maria/creator.pub", ca="web-5") == "web-5/ca.key: No such file or directory"
    assert refused("maria/creator.pub", ca="nowhere") == "nowhere/ca.pem: No such file or directory"
    assert not (shop / "out.pem").exists()
    assert complaint(shop, "trust", "maria/creator.pub", "--name", "maria", "--ca", "ca") == (
        "maria/creator.pem: is already there and is not written over: name another file with --out"
    )
    assert [one["name"] for one in listed(shop)] == ["maria"]


def test_creators_are_listed_and_revoked_apart_from_agents(shop: Path, maria: Path) -> None:
    elf(shop, "ca", "issue", "ca", "maria", "--out", "agent")  # an agent may have a creator's name
    creator(shop, "trust", "maria/creator.pub", "--name", "maria", "--ca", "ca", "--out", "renewed.pem")
    first, second = listed(shop)
    assert {one["state"] for one in (first, second)} == {"valid"}
    assert first["key"] == second["key"]
    assert x509.load_der_x509_certificate(load_creator(maria).certificate).serial_number == int(first["serial"], 16)
    said = creator(shop, "revoke", first["serial"], "--ca", "ca", "--reason", "superseded")
    assert said.startswith(f"ca/crl.pem: 1 certificate of {first['serial']} revoked, list number ")
    first, second = listed(shop)
    assert [one["state"] for one in (first, second)] == ["revoked", "valid"]
    assert first["revoked"] is not None
    assert second["revoked"] is None
    creator(shop, "revoke", "maria", "--ca", "ca")
    assert [one["state"] for one in listed(shop)] == ["revoked", "revoked"]
    assert complaint(shop, "revoke", second["key"], "--ca", "ca").endswith("not revoked or expired already")
    table = creator(shop, "list", "--ca", "ca")
    assert table.count("maria") == 2
    for word in ("NAME", "KEY", "SERIAL", "VALID UNTIL", "revoked"):
        assert word in table
    shown = json.loads(elf(shop, "ca", "show", "ca", "--output", "json")[1])
    assert [(one["role"], one["state"]) for one in shown["issued"]] == [
        ("creator", "revoked"), ("agent", "valid"), ("creator", "revoked"),
    ]  # fmt: skip
    assert elf(shop, "ca", "revoke", "ca", "maria")[0] == 0  # the agent
    assert complaint(shop, "revoke", "oleg", "--ca", "ca") == (
        "oleg: no creator ca trusts has that name, key or serial number; elf creator list"
    )


@pytest.mark.usefixtures("maria")
def test_a_key_that_others_know_is_not_trusted_again(shop: Path) -> None:
    trust = ("trust", "maria/creator.pub", "--name", "maria", "--ca", "ca", "--out")
    creator(shop, "revoke", "maria", "--ca", "ca")
    creator(shop, *trust, "back.pem")  # she was away
    creator(shop, "revoke", "maria", "--ca", "ca", "--reason", "key-compromise")
    assert complaint(shop, *trust, "again.pem") == (
        "ca: that key was revoked, as one that others know; maria needs a new one"
    )
    creator(shop, "init", "maria", "--directory", "new")
    creator(shop, "trust", "new/creator.pub", "--name", "maria", "--ca", "ca")
    assert load_creator(shop / "new").name == "maria"


def test_people_are_told_where_there_is_nobody(shop: Path) -> None:
    code, out, said = elf(shop, "creator", "list", "--ca", "ca")
    assert (code, out, said) == (0, "", "ca: trusts no creators yet; elf creator trust makes it trust one\n")
    assert listed(shop) == []


def test_a_certificate_of_a_creator_can_be_shown(shop: Path, maria: Path) -> None:
    shown = json.loads(elf(shop, "ca", "show", str(maria / "creator.pem"), "--output", "json")[1])
    (one,) = listed(shop)
    assert (shown["name"], shown["identity"]) == ("maria", f"elf://shop/creator/{one['key']}")
    assert elf(shop, "ca", "renew", "ca", "maria")[0] == 1


@pytest.mark.parametrize("command", [[], ["init"], ["trust"], ["revoke"], ["list"]])
def test_each_command_shows_how_it_is_used(tmp_path: Path, command: list[str]) -> None:
    shown = creator(tmp_path, *command, "--help")
    assert "Examples:" in shown
    assert f"elf creator {command[0] if command else 'init'}" in shown
