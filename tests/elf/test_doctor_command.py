"""`elf doctor`: what it says of a configuration on this machine, and of faults in it."""

from __future__ import annotations

import json
import os
import pwd
import socket
from pathlib import Path
from typing import Any

import pytest
from agent_toml import agent_toml
from cryptography import x509
from elf_process import elf

from elf.commands.doctor.files import may
from overlay import Authority

AUTHORITY = Authority.create("shop")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The files of an agent that does not run."""
    (tmp_path / "data").mkdir()
    (tmp_path / "ca.pem").write_bytes(AUTHORITY.certificate_pem)
    AUTHORITY.issue("agent-1").save(tmp_path / "agent.pem", tmp_path / "agent.key")
    (tmp_path / "web.log").write_text("")
    toml = agent_toml("agent-1", listen=f"127.0.0.1:{free_port()}", streams={"web": "web.log"})
    (tmp_path / "agent.toml").write_text(toml)
    return tmp_path


def change(folder: Path, old: str, new: str) -> None:
    text = (folder / "agent.toml").read_text()
    assert old in text
    (folder / "agent.toml").write_text(text.replace(old, new))


def examined(folder: Path) -> tuple[int, dict[str, dict[str, Any]]]:
    """The exit code, and the findings by what was checked."""
    user = pwd.getpwuid(os.getuid()).pw_name
    finished = elf("doctor", "--config", str(folder / "agent.toml"), "--user", user, "--output", "json")
    findings = [json.loads(line) for line in finished.out.splitlines()]
    return finished.code, {one["check"]: one for one in findings}


def test_an_agent_that_can_be_started_has_no_faults(folder: Path) -> None:
    code, found = examined(folder)
    assert {name for name, one in found.items() if one["verdict"] == "fault"} == set()
    assert code == 0
    assert found["certificate"]["found"].startswith("agent-1 of shop, valid until ")
    assert found["stream web"]["verdict"] == "ok"
    assert found["agent"]["verdict"] == "warning"
    assert "systemctl start" in found["agent"]["mend"]
    assert {"clock", "open files", "inotify", "memory", "programs", "listen", "seeds"} <= found.keys()


def test_a_certificate_that_ends_soon_or_is_unreadable_is_told_of(folder: Path) -> None:
    for name in ("agent.pem", "agent.key"):
        (folder / name).unlink()
    AUTHORITY.issue("agent-1", days=5).save(folder / "agent.pem", folder / "agent.key")
    soon = x509.load_pem_x509_certificate((folder / "agent.pem").read_bytes()).not_valid_after_utc
    one = examined(folder)[1]["certificate"]
    assert (one["verdict"], f"{soon:%Y-%m-%d}" in one["found"]) == ("warning", True)
    assert "elf ca renew" in one["mend"]
    (folder / "agent.pem").write_text("no certificate")
    code, found = examined(folder)
    assert (code, found["certificate"]["verdict"]) == (1, "fault")
    assert "agent.pem" in found["certificate"]["found"]


def test_ports_and_seeds_are_tried(folder: Path) -> None:
    with socket.socket() as taken, socket.socket() as seed:
        for one in (taken, seed):
            one.bind(("127.0.0.1", 0))
            one.listen()
        nobody = free_port()
        change(folder, f"{(folder / 'agent.toml').read_text().split('listen = ')[1].splitlines()[0]}",
               f'"127.0.0.1:{taken.getsockname()[1]}"')  # fmt: skip
        change(folder, "seeds = []", f'seeds = ["127.0.0.1:{seed.getsockname()[1]}", "127.0.0.1:{nobody}"]')
        code, found = examined(folder)
        assert code == 1
        assert "address already in use" in found["listen"]["found"]
        assert found[f"seed 127.0.0.1:{seed.getsockname()[1]}"]["found"].startswith("answers")
        assert found[f"seed 127.0.0.1:{nobody}"]["found"] == "connection refused"


def test_folders_and_logs_are_looked_at(folder: Path) -> None:
    change(folder, 'data_directory = "data"', 'data_directory = "data"\ncontrol_socket = "run/control.sock"')
    change(folder, "web.log", "logs/*.log")
    code, found = examined(folder)
    assert code == 1
    assert found["control_socket"]["mend"].startswith("sudo install -d -m 750 -o ")
    assert (found["stream web"]["verdict"], found["stream web"]["found"].split()[:4]) == (
        "warning", ["no", "file", "matches", f"{folder}/logs/*.log"],
    )  # fmt: skip


@pytest.mark.skipif(os.getuid() != 0, reason="only root has files of others")
def test_rights_are_those_of_the_user_as_whom_the_agent_runs(tmp_path: Path) -> None:
    nobody, log = pwd.getpwnam("nobody"), tmp_path / "web.log"
    log.write_text("")
    log.chmod(0o640)
    assert not may(log, nobody, os.R_OK)
    log.chmod(0o644)
    assert may(log, nobody, os.R_OK)
    os.chown(log, nobody.pw_uid, nobody.pw_gid)
    log.chmod(0o200)
    assert not may(log, nobody, os.R_OK)


def test_what_people_read_has_the_command_below(folder: Path) -> None:
    (folder / "web.log").unlink()
    finished = elf("doctor", "--config", str(folder / "agent.toml"), "--user", pwd.getpwuid(os.getuid()).pw_name)
    lines = finished.out.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("WARN   stream web: no file matches"))
    assert lines[at + 1] == f"       mend: ls -l {folder}"
    assert elf("doctor", "--config", str(folder / "agent.toml"), "--user", "nobody-at-all").code == 2
