"""Libraries that do not fit are refused, whatever is wrong with them."""

import hashlib
import json
import platform
import sys
from pathlib import Path

import pytest

from cbt.native import library
from cbt.native.loading import SEAL, SWITCH, load_library

CONTENT = library.FILE.read_bytes() if library.FILE.exists() else b"a library"


@pytest.fixture(autouse=True)
def _switched_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SWITCH, raising=False)


def sealed(folder: Path, content: bytes, **changes: str) -> Path:
    """A library with its seal, in which some entries are others."""
    file = folder / "_tree.so"
    file.write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    seal = {"machine": platform.machine(), "system": sys.platform, "sha256": digest, **changes}
    file.with_suffix(SEAL).write_text(json.dumps(seal))
    return file


@pytest.mark.parametrize(
    ("content", "changes", "reason"),
    [
        (CONTENT[: len(CONTENT) // 2], {"sha256": hashlib.sha256(CONTENT).hexdigest()}, "it is damaged"),
        (CONTENT[:-1] + bytes([CONTENT[-1] ^ 1]), {"sha256": hashlib.sha256(CONTENT).hexdigest()}, "it is damaged"),
        (CONTENT, {"machine": "riscv"}, f"it was built for riscv {sys.platform}"),
        (b"no library at all", {}, "it cannot be loaded: "),
    ],
    ids=["cut short", "changed", "of another machine", "no library"],
)
def test_a_library_that_does_not_fit_is_refused(
    tmp_path: Path, content: bytes, changes: dict[str, str], reason: str
) -> None:  # fmt: skip
    loaded = load_library(sealed(tmp_path, content, **changes), library.INTERFACE)
    assert loaded.library is None
    assert loaded.reason.startswith(reason)


def test_what_was_not_built_is_not_loaded(tmp_path: Path) -> None:
    file = tmp_path / "_tree.so"
    assert "not built" in load_library(file, library.INTERFACE).reason
    sealed(tmp_path, CONTENT).with_suffix(SEAL).write_text("{")
    assert "not built" in load_library(file, library.INTERFACE).reason


@pytest.mark.skipif(library.load().library is None, reason="no kernel here")
def test_a_library_of_another_version_is_refused(tmp_path: Path) -> None:
    file = sealed(tmp_path, CONTENT)
    assert load_library(file, library.INTERFACE).library is not None
    other = library.INTERFACE._replace(version=library.INTERFACE.version + 1)
    assert load_library(file, other) == (None, "it was built for another version of ELF")


def test_libraries_can_be_turned_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWITCH, "0")
    assert load_library(sealed(tmp_path, CONTENT), library.INTERFACE) == (None, "ELF_NATIVE=0 turns it off")
