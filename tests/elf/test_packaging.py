"""What a package brings beside the command: manual pages, the systemd unit, maintainer scripts, and a configuration."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from elf.cli import COMMANDS

DEPLOY = Path(__file__).parents[2] / "deploy"
UNIT = DEPLOY / "systemd/elf-agent.service"
EXPOSURE_MAX = "20"
"""`systemd-analyze` counts in tenths."""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("man")
    command = [sys.executable, str(DEPLOY / "debian/man_pages.py"), str(folder), "1.2.3"]
    subprocess.run(command, check=True, env=os.environ | {"SOURCE_DATE_EPOCH": "1700000000"})
    return folder


def test_every_command_has_a_page_that_says_what_its_help_says(pages: Path) -> None:
    assert {f"elf-{command}.1" for command in COMMANDS} | {"elf.1", "elf-ca-issue.1"} <= {
        p.name for p in pages.iterdir()
    }
    text = (pages / "elf-query.1").read_text()
    for part in ('.TH "ELF\\-QUERY" "1" "2023-11-14" "elf 1.2.3"', r"\-\-timeout S", ".SH EXAMPLES", r"\fBelf\fP(1)"):
        assert part in text


@pytest.mark.skipif(shutil.which("man") is None, reason="no man here")
def test_pages_are_faultless_for_man(pages: Path) -> None:
    for page in pages.iterdir():
        command = ["man", "--warnings", "--encoding=UTF-8", "--local-file", "-Tutf8", "-Z", str(page)]
        found = subprocess.run(command, capture_output=True, check=True, env=os.environ | {"MANWIDTH": "80"})
        assert found.stderr == b"", page


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd here")
def test_the_unit_leaves_little_exposed() -> None:
    command = ["systemd-analyze", "security", "--offline=true", f"--threshold={EXPOSURE_MAX}", str(UNIT)]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout[-200:]


def test_the_unit_checks_the_configuration_before_start_and_reload() -> None:
    wanted = {
        "Type=notify",
        "ExecStartPre=/usr/bin/elf config check /etc/elf/agent.toml",
        "ExecReload=/usr/bin/elf reload",
    }
    assert wanted <= set(UNIT.read_text().splitlines())


@pytest.mark.parametrize("script", ["postinst", "prerm", "postrm"])
def test_maintainer_scripts_are_shell_that_stops_at_a_fault(script: str) -> None:
    path = DEPLOY / "debian" / script
    subprocess.run(["sh", "-n", str(path)], check=True)
    assert re.search(r"^set -e$", path.read_text(), re.MULTILINE)


def test_the_packages_configuration_sets_nothing_and_names_what_an_agent_needs() -> None:
    text = (DEPLOY / "debian/agent.toml").read_text()
    assert tomllib.loads(text) == {}
    filled_in = tomllib.loads(re.sub(r"^# (?=\w+ = |\[)", "", text, flags=re.MULTILINE))
    assert {"fleet", "name", "listen", "seeds", "data_directory", "control_socket", "identity", "streams"} <= set(
        filled_in
    )
