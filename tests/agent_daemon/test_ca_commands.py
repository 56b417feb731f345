"""`elf ca` as an operator uses it over the years: passwords, renewals, revocations, another authority."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from elf_command import elf, secret

from overlay import AuthorityDirectory, Identity, IdentityError, address_id, format_id

PASSWORD = "correct horse"


def ca(folder: Path, *arguments: str) -> str:
    """Standard output of a command that works."""
    code, out, complaint = elf(folder, "ca", *arguments)
    assert (code, complaint) == (0, "")
    return out


def complaint(folder: Path, *arguments: str) -> str:
    """The one line that says why a command does not."""
    code, out, said = elf(folder, "ca", *arguments)
    assert code in (1, 2)
    assert (out, said.count("\n")) == ("", 1)
    return said.removeprefix("elf: ").rstrip("\n")


def shown(folder: Path, target: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(ca(folder, "show", target, "--output", "json"))
    return found


def loaded(directory: Path, password_file: Path | None = None) -> Identity:
    files = [directory / name for name in ("ca.pem", "agent.pem", "agent.key")]
    return Identity.load(*files, key_password_file=password_file)


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A folder with an authority without a password in `ca`, and an agent's files in `web-5`."""
    ca(tmp_path, "init", "ca", "--fleet", "shop", "--no-password")
    ca(tmp_path, "issue", "ca", "web-5", "--out", "web-5")
    return tmp_path


def test_an_authoritys_key_needs_its_password(tmp_path: Path) -> None:
    password = secret(tmp_path / "password", f"{PASSWORD}\nnot this line")
    ca(tmp_path, "init", "ca", "--fleet", "shop", "--password-file", password)
    key = tmp_path / "ca" / "ca.key"
    assert key.read_bytes().startswith(b"-----BEGIN ENCRYPTED PRIVATE KEY-----")
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    issue = ("issue", "ca", "web-5", "--out", "web-5")
    assert complaint(tmp_path, *issue) == (
        "there is no terminal to ask for the password of the authority's key: give --password-file FILE"
    )
    wrong = secret(tmp_path / "wrong", "wrong horse")
    assert complaint(tmp_path, *issue, "--password-file", wrong) == "ca/ca.key: that is not its password"
    assert not (tmp_path / "web-5").exists()
    ca(tmp_path, *issue, "--password-file", password)
    ca(tmp_path, "renew", "ca", "web-5", "--password-file", password)
    ca(tmp_path, "revoke", "ca", "web-5", "--password-file", password)
    assert shown(tmp_path, "ca")["encrypted"]  # which nobody needs a password for


@pytest.mark.parametrize(
    ("content", "mode", "words"),
    [
        ("short", 0o600, "the password is too short: it needs 8 characters"),
        ("", 0o600, "password: its first line should be a password, and is empty"),
        ("x" * 2000, 0o600, "password: its first line is no password: longer than 1023 bytes"),
        (PASSWORD, 0o644, "password: is open to everybody on this machine (mode 644)"),
    ],
)
def test_a_password_that_protects_nothing_is_refused(tmp_path: Path, content: str, mode: int, words: str) -> None:
    (tmp_path / "password").write_text(content)
    (tmp_path / "password").chmod(mode)
    assert words in complaint(tmp_path, "init", "ca", "--fleet", "shop", "--password-file", "password")
    assert not (tmp_path / "ca").exists()


def at_a_terminal(folder: Path, answers: str, *arguments: str) -> tuple[int, str]:
    """Exit code and screen of a command that asks for passwords."""
    master, slave = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", "import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0);"
         "from elf.cli import main; main()", "ca", *arguments],
        cwd=folder, stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
    )  # fmt: skip
    os.close(slave)
    screen = ""
    waiting = answers.splitlines()
    with contextlib.suppress(OSError):  # the end of a terminal
        while data := os.read(master, 4096):
            screen += data.decode()
            if screen.endswith(": ") and waiting:
                os.write(master, f"{waiting.pop(0)}\n".encode())
    os.close(master)
    return process.wait(30), screen


def test_at_a_terminal_passwords_are_asked_for_and_not_shown(tmp_path: Path) -> None:
    code, screen = at_a_terminal(tmp_path, f"{PASSWORD}\n{PASSWORD}\n", "init", "ca", "--fleet", "shop")
    assert code == 0, screen
    assert screen.count("Password for the authority's key") == 1
    code, more = at_a_terminal(tmp_path, f"{PASSWORD}\n", "issue", "ca", "web-5", "--out", "web-5")
    assert code == 0, more
    assert PASSWORD not in screen + more
    assert loaded(tmp_path / "web-5").name == "web-5"


def test_an_agents_key_may_be_encrypted(shop: Path) -> None:
    password = secret(shop / "password", PASSWORD)
    ca(shop, "issue", "ca", "web-6", "--out", "web-6", "--key-password-file", password)
    with pytest.raises(IdentityError, match="is protected by a password: name the file that has it"):
        loaded(shop / "web-6")
    with pytest.raises(IdentityError, match=r"wrong: is not the password of .*agent\.key"):
        loaded(shop / "web-6", shop / secret(shop / "wrong", "wrong horse"))
    identity = loaded(shop / "web-6", shop / password)
    assert complaint(shop, "renew", "ca", "web-6") == (
        "web-6/agent.key: is protected by a password: give --key-password-file"
    )
    ca(shop, "renew", "ca", "web-6", "--key-password-file", password)
    assert loaded(shop / "web-6", shop / password).node_id == identity.node_id


def test_renewed_an_agent_is_the_same_with_another_key(shop: Path) -> None:
    before, key = loaded(shop / "web-5"), (shop / "web-5" / "agent.key").read_bytes()
    ca(shop, "renew", "ca", "web-5", "--days", "30")
    after = loaded(shop / "web-5")
    assert (after.name, after.node_id) == (before.name, before.node_id)
    assert after.claims.serial != before.claims.serial
    assert after.expires < before.expires
    assert (shop / "web-5" / "agent.key").read_bytes() != key
    assert {path.name for path in (shop / "web-5").iterdir()} == {"ca.pem", "agent.pem", "agent.key"}
    assert [one["name"] for one in shown(shop, "ca")["issued"]] == ["web-5", "web-5"]


def test_another_authority_of_the_fleet_takes_agents_over(shop: Path) -> None:
    before = loaded(shop / "web-5")
    ca(shop, "init", "new", "--fleet", "shop", "--no-password")
    ca(shop, "renew", "new", "web-5")
    after = loaded(shop / "web-5")
    assert (after.name, after.node_id) == (before.name, before.node_id)
    assert len(after.authorities) == 2
    assert shown(shop, "new")["issued"][0]["name"] == "web-5"
    assert ca(shop, "show", "web-5/ca.pem").count("authority:") == 2
    ca(shop, "init", "zoo", "--fleet", "zoo", "--no-password")
    assert complaint(shop, "renew", "zoo", "web-5") == "web-5/agent.pem: of fleet 'shop', not 'zoo'"


def test_an_id_may_be_the_hash_of_an_address(shop: Path) -> None:
    ca(shop, "issue", "ca", "web-6", "--out", "web-6", "--id-from-address", "10.0.0.6:7700")
    assert loaded(shop / "web-6").node_id == address_id("10.0.0.6:7700")
    issue = ("issue", "ca", "web-7", "--out", "web-7")
    assert "is not host:port" in complaint(shop, *issue, "--id-from-address", "10.0.0.6")
    assert "two different things" in complaint(
        shop, *issue, "--id-from-address", "10.0.0.6:7700", "--node-id", format_id(5)
    )


def test_by_name_all_certificates_of_an_agent_are_revoked(shop: Path) -> None:
    ca(shop, "renew", "ca", "web-5")
    ca(shop, "issue", "ca", "web-6", "--out", "web-6")
    said = ca(shop, "revoke", "ca", "web-5", "--reason", "key-compromise")
    assert said.startswith("ca/crl.pem: 2 certificates of web-5 revoked, list number ")
    found = shown(shop, "ca")
    assert [one["state"] for one in found["issued"]] == ["revoked", "revoked", "valid"]
    assert {(one["name"], one["reason"]) for one in found["revoked"]} == {("web-5", "keyCompromise")}
    crl = x509.load_pem_x509_crl((shop / "ca" / "crl.pem").read_bytes())
    authority = AuthorityDirectory(shop / "ca").certificate
    assert crl.is_signature_valid(authority.public_key())  # type: ignore[arg-type]
    assert {f"{one.serial_number:x}" for one in crl} == {one["serial"] for one in found["issued"][:2]}
    for again in (("revoke", "ca", "web-5"), ("revoke", "ca", found["issued"][0]["node_id"])):
        assert complaint(shop, *again).endswith("has no certificate that is not revoked or expired already")
    assert complaint(shop, "renew", "ca", "web-5").startswith("web-5/agent.pem: is revoked; issue a new one")
    listed = shown(shop, "ca/crl.pem")
    assert (listed["kind"], listed["number"], len(listed["revoked"])) == ("revocation list", found["list_number"], 2)


def test_by_file_one_certificate_is_revoked_and_numbers_only_grow(shop: Path) -> None:
    (shop / "old.pem").write_bytes((shop / "web-5" / "agent.pem").read_bytes())
    ca(shop, "renew", "ca", "web-5")
    ca(shop, "revoke", "ca", "old.pem", "--reason", "superseded")
    first = shown(shop, "ca")
    assert [one["state"] for one in first["issued"]] == ["revoked", "valid"]
    assert complaint(shop, "revoke", "ca", "old.pem").endswith("is revoked already")
    ca(shop, "revoke", "ca", first["issued"][1]["node_id"])
    second = shown(shop, "ca")
    assert second["list_number"] > first["list_number"]
    assert [one["state"] for one in second["issued"]] == ["revoked", "revoked"]


def test_who_is_to_be_revoked_must_be_clear(shop: Path) -> None:
    ca(shop, "issue", "ca", "web-5", "--out", "twin")
    ca(shop, "init", "other", "--fleet", "shop", "--no-password")
    assert "web-5: the name of 2 agents; say which by its id: " in complaint(shop, "revoke", "ca", "web-5")
    assert complaint(shop, "revoke", "ca", "web-9") == (
        "web-9: ca has issued no certificate to an agent of that name, id or serial number, and it is no file"
    )
    assert complaint(shop, "revoke", "other", "twin/agent.pem") == (
        "twin/agent.pem: was not issued by the authority other"
    )
    assert complaint(shop, "revoke", "ca", "twin/agent.key") == "twin/agent.key: not a certificate (PEM)"
    assert "'whim' is not one of" in complaint(shop, "revoke", "ca", "web-5", "--reason", "whim")


def test_what_was_tampered_with_is_said(shop: Path) -> None:
    list_of_nobody = (shop / "ca" / "crl.pem").read_bytes()
    (shop / "ca" / "crl.pem").write_text("nonsense")
    assert complaint(shop, "revoke", "ca", "web-5") == "ca/crl.pem: not a list of revoked certificates"
    (shop / "ca" / "crl.pem").write_bytes(list_of_nobody)
    with (shop / "ca" / "issued.jsonl").open("a") as index:
        index.write("nonsense\n")
    assert complaint(shop, "show", "ca") == "ca/issued.jsonl:2: not a line of an authority's index"
    (shop / "ca" / "ca.key").chmod(0o604)
    assert complaint(shop, "issue", "ca", "web-6", "--out", "web-6") == (
        "ca/ca.key: is open to everybody on this machine (mode 604): its secret may be known; chmod o= it"
    )


def test_only_one_at_a_time_changes_an_authority(shop: Path) -> None:
    with (shop / "ca" / "lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        process = subprocess.Popen([sys.executable, "-m", "elf", "ca", "revoke", "ca", "web-5"], cwd=shop)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1.5)
    assert process.wait(30) == 0


def test_people_get_tables(shop: Path) -> None:
    ca(shop, "revoke", "ca", "web-5")
    text = ca(shop, "show", "ca")
    for word in ("fleet:", "shop", "authority:", "list number:", "web-5", "revoked", "unspecified"):
        assert word in text
    text = ca(shop, "show", "ca/crl.pem")
    assert "number:" in text
    assert "issuer:" in text
