"""The native scanner is built for every platform that wheels are for, and refused on all others."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
from pathlib import Path

import pytest

from agent.parsing.native import library
from cbt.native.loading import load_library

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "deploy"))
import build_native  # noqa: E402

MAGIC = {"linux": b"\x7fELF", "darwin": b"\xcf\xfa\xed\xfe"}
MACHINE_CODES = {("linux", "x86_64"): (18, 62), ("linux", "aarch64"): (18, 183), ("darwin", "x86_64"): (4, 7),
                 ("darwin", "arm64"): (4, 12)}  # fmt: skip
"""Place and value of the byte that tells machines apart in the header of a library."""


def copy_of_sources(folder: Path) -> Path:
    for library_file in build_native.LIBRARIES:
        sources = library_file.parent
        shutil.copytree(ROOT / sources, folder / sources, ignore=shutil.ignore_patterns("_*.so", "_*.json"))
    return folder


def test_another_platform_is_refused_with_those_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(build_native.PLATFORM, "win_amd64")
    with pytest.raises(ValueError, match="none of manylinux_2_17_x86_64, "):
        build_native.compiler()


def test_sources_that_do_not_compile_leave_no_library(tmp_path: Path) -> None:
    compiler = build_native.system_compiler()
    if compiler is None:
        pytest.skip("no C compiler here")
    root = copy_of_sources(tmp_path)
    (root / build_native.SCANNER.parent / "broken.c").write_text("no C at all")
    reason = build_native.try_to_build(root)
    assert "broken.c" in reason
    assert not (root / build_native.SCANNER).exists()


@pytest.mark.slow
@pytest.mark.parametrize("name", build_native.TARGETS)
def test_it_is_built_for_each_platform(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    if importlib.util.find_spec("ziglang") is None:
        pytest.skip("no ziglang here: `make wheels` installs it")
    monkeypatch.setenv(build_native.PLATFORM, name)
    root = copy_of_sources(tmp_path)
    assert build_native.try_to_build(root) == ""
    wanted, file = build_native.TARGETS[name], root / build_native.SCANNER
    content = file.read_bytes()
    place, code = MACHINE_CODES[wanted.system, wanted.machine]
    assert (content[:4], content[place]) == (MAGIC[wanted.system], code)
    assert json.loads(file.with_suffix(build_native.SEAL).read_bytes())["machine"] == wanted.machine
    fits = (build_native.platform.machine(), sys.platform) == (wanted.machine, wanted.system)
    loaded = load_library(file, library.INTERFACE)
    assert (loaded.library is not None) == (fits and "musl" not in name), loaded.reason


@pytest.mark.parametrize("length", [0, 1, 63, 64, 65, 255 * 64 - 1, 255 * 64, 255 * 64 + 1, 40_000])
def test_lines_are_counted(length: int) -> None:
    for block in (b"\n" * length, (b"a\n\n" * length)[:length]):
        assert library.count_lines(block) == block.count(b"\n")
