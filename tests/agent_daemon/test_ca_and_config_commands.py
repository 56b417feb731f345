"""`elf ca` and `elf config check`, as an operator types them."""

from __future__ import annotations

import socket
import stat
from pathlib import Path

import pytest
from agent_toml import agent_toml
from elf_command import elf

from agent import load_config, load_identity
from benchmarks.chaos.hosts import SmallDisks, disks_unavailable

NO_DISKS = disks_unavailable()
CONFIG = agent_toml(identity="web-5/")


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an authority in `ca` and an agent's files in `web-5`."""
    folder = tmp_path_factory.mktemp("shop")
    assert elf(folder, "ca", "init", "ca", "--fleet", "shop", "--no-password")[0] == 0
    assert elf(folder, "ca", "issue", "ca", "web-5", "--out", "web-5")[0] == 0
    return folder


def test_what_is_issued_is_an_identity_an_agent_can_use(shop: Path) -> None:
    (shop / "agent.toml").write_text(CONFIG)
    identity = load_identity(load_config(shop / "agent.toml"))
    assert (identity.fleet, identity.name) == ("shop", "web-5")
    assert elf(shop, "config", "check", "agent.toml") == (0, "ok\n", "")


def test_keys_are_for_their_owner_alone(shop: Path) -> None:
    for key in (shop / "ca" / "ca.key", shop / "web-5" / "agent.key"):
        assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert {path.name for path in (shop / "web-5").iterdir()} == {"ca.pem", "agent.pem", "agent.key"}


def test_nothing_is_written_over(shop: Path) -> None:
    before = (shop / "ca" / "ca.key").read_bytes()
    code, _, complaint = elf(shop, "ca", "init", "ca", "--fleet", "shop")
    assert (code, complaint) == (1, "elf: ca/ca.key: is already there and is not written over\n")
    code, _, complaint = elf(shop, "ca", "issue", "ca", "web-5", "--out", "web-5")
    assert (code, complaint) == (1, "elf: web-5/agent.key: is already there and is not written over\n")
    assert (shop / "ca" / "ca.key").read_bytes() == before


def test_a_renewed_certificate_keeps_the_id(shop: Path) -> None:
    shown = elf(shop, "ca", "show", "web-5/agent.pem")[1]
    identity = next(line for line in shown.splitlines() if line.startswith("identity:")).split()[1]
    assert identity.startswith("elf://shop/")
    node_id = identity.rpartition("/")[2]
    assert elf(shop, "ca", "issue", "ca", "web-5", "--out", "new", "--node-id", node_id, "--days", "30")[0] == 0
    assert identity in elf(shop, "ca", "show", "new/agent.pem")[1]


def test_a_renewed_key_stays_readable_for_the_group_that_could_read_the_old_one(shop: Path) -> None:
    assert elf(shop, "ca", "issue", "ca", "web-6", "--out", "web-6")[0] == 0
    key = shop / "web-6/agent.key"
    key.chmod(0o640)
    before = key.read_bytes()
    assert elf(shop, "ca", "renew", "ca", "web-6")[0] == 0
    assert key.read_bytes() != before
    assert stat.S_IMODE(key.stat().st_mode) == 0o640


def test_the_agent_of_the_authoritys_own_machine_enrols_without_a_token(shop: Path) -> None:
    place = ("--name", "web-7", "--out", "id", "--config", "enrolled/agent.toml")
    assert elf(shop, "agent", "enroll", "--ca", "ca", *place)[:2] == (
        0,
        "id: agent web-7 of fleet shop\nenrolled/conf.d/enrolled.toml: names these files in the configuration\n",
    )
    (shop / "enrolled/agent.toml").write_text('listen = "127.0.0.1:7700"\ndata_directory = "data"\n')
    config = load_config(shop / "enrolled/agent.toml")
    assert (load_identity(config).name, config.identity.authority) == ("web-7", None)
    assert "web-7" in elf(shop, "ca", "show", "ca")[1]
    code, _, complaint = elf(shop, "agent", "enroll", "--ca", "ca", *place)
    assert (code, "is already there and is not written over" in complaint) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["ca", "init", "x", "--fleet", "a b"], 2, "a fleet's name is"),
        (["ca", "init", "ca/ca.key/x", "--fleet", "shop", "--no-password"], 1, "ca/ca.key/x: "),
        (["ca", "init", "x", "--fleet", "shop"], 2, "no terminal to ask for the password"),
        (["ca", "issue", "nowhere", "a", "--out", "a"], 1, "nowhere/ca.pem: "),
        (["ca", "issue", "ca", "", "--out", "a"], 2, "an agent's name is"),
        (["ca", "issue", "ca", "a", "--out", "a", "--node-id", "xyz"], 2, "--node-id: an id is 32 hexadecimal"),
        (["ca", "issue", "ca", "a", "--out", "a", "--days", "0"], 2, "--days"),
        (["ca", "issue", "ca", "a", "--out", "web-5/agent.key"], 2, "is a file"),
        (["ca", "show", "nowhere"], 1, "nowhere: no such file or directory"),
        (["ca", "show", "ca/ca.key"], 1, "ca/ca.key: this is no certificate of an agent, a creator or an"),
        (["ca", "token", "nowhere"], 1, "nowhere/ca.pem: "),
        (["ca", "token", "ca", "--minutes", "0"], 2, "--minutes"),
        (["ca", "serve", "ca", "--listen", "1.2.3.4:99999"], 2, "--listen: '1.2.3.4:99999': a port is 0 to 65535"),
        (["ca", "serve", "ca", "--listen", "192.0.2.1:1"], 1, "--listen 192.0.2.1:1: cannot assign requested address"),
        (["agent", "enroll", "elf1-abc"], 2, "TOKEN@HOST"),
        (["agent", "enroll", "abc@host"], 2, "the token is no token: one begins with elf1-"),
        (["agent", "enroll", "elf1-abc@host"], 2, "the token is misread: "),
        (["agent", "enroll", "elf1-abc@host", "--ca", "ca"], 2, "either TOKEN@HOST, or --ca CA_DIR"),
        (["agent", "enroll", "--ca", "nowhere", "--out", "nobody"], 1, "nowhere/ca.pem: "),
        (["config", "check", "nowhere"], 2, "nowhere: no such file or directory"),
        (["agent", "--config", "nowhere"], 2, "nowhere: no such file or directory"),
        (["agent"], 2, "Missing option '--config'"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_said_in_one_line(shop: Path, arguments: list[str], code: int, words: str) -> None:
    found, out, complaint = elf(shop, *arguments)
    assert (found, out, complaint.count("\n")) == (code, "", 1)
    assert words in complaint


def test_the_authority_is_served_where_nobody_else_listens(shop: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        served = elf(shop, "ca", "serve", "ca", "--listen", listen)
        assert served == (1, "", f"elf: --listen {listen}: address already in use\n")


@pytest.mark.skipif(NO_DISKS is not None, reason=NO_DISKS or "")
def test_no_token_is_used_up_where_the_disk_is_full(shop: Path) -> None:
    out = shop / "full"
    _, token, _ = elf(shop, "ca", "token", "ca")
    with SmallDisks({"": out}) as disks:
        disks.fill("")
        arguments = ("agent", "enroll", f"{token.strip()}@127.0.0.1:1", "--out", "full", "--config", "agent.toml")
        code, told, complaint = elf(shop, *arguments)
        assert (code, told) == (1, ""), "nobody is asked"
        assert complaint == "elf: full: no space left on device: --out names another folder\n"
        disks.free("")
        assert "is elf ca serve running there?" in elf(shop, *arguments)[2]


def test_every_fault_of_a_configuration_is_a_line(shop: Path) -> None:
    (shop / "faulty.toml").write_text(CONFIG.replace("listen", "lisen").replace('"web-5"', "5"))
    assert elf(shop, "config", "check", "faulty.toml") == (
        2,
        "",
        "faulty.toml: listen: is missing\n"
        "faulty.toml:2: name: must be text in quotes, not a whole number\n"
        "faulty.toml:3: lisen: unknown key (did you mean listen?)\n",
    )
    (shop / "other.toml").write_text(CONFIG.replace('"shop"', '"other"'))
    code, _, complaint = elf(shop, "config", "check", "other.toml")
    assert (code, complaint.count("\n")) == (2, 1)
    assert complaint.startswith("other.toml:8: identity.certificate: ")
