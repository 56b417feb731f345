"""The environments that contenders run in: ELF's own, and `.venv-bench` for what ELF is measured against."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REQUIREMENTS = ROOT / "benchmarks" / "rivals" / "requirements.txt"
RIVAL_ENVIRONMENT = ROOT / ".venv-bench"

_CORES = 2
_JAVA_MIN = 17
_INSTALL_TIMEOUT_S = 1_800


class NotAvailable(Exception):  # noqa: N818 - it is a state of the machine, not an error
    """Something a contender needs is not on this machine; the message is a few words."""


def use_two_cores() -> None:
    """Keep this process and all it starts on two cores, where the system can do that."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:_CORES])


def contender_variables() -> dict[str, str]:
    """The environment variables of every contender: two threads, and nothing that listens beyond loopback."""
    return os.environ | {"POLARS_MAX_THREADS": str(_CORES), "SPARK_LOCAL_IP": "127.0.0.1"}


def rival_python() -> Path:
    """The interpreter of `.venv-bench`, which is made on first use and again when its requirements change."""
    python = RIVAL_ENVIRONMENT / "bin" / "python"
    stamp = RIVAL_ENVIRONMENT / ".requirements"
    wanted = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()
    if python.exists() and stamp.exists() and stamp.read_text() == wanted:
        return python
    print(f"Preparing {RIVAL_ENVIRONMENT.name} (once, some 500 MB) ...", file=sys.stderr, flush=True)
    _run([sys.executable, "-m", "venv", str(RIVAL_ENVIRONMENT)])
    _run([str(python), "-m", "pip", "install", "--quiet", "--requirement", str(REQUIREMENTS)])
    stamp.write_text(wanted)
    return python


def check_java() -> None:
    """NotAvailable unless there is a Java that Spark runs on."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which(str(Path(home) / "bin" / "java")) if home else shutil.which("java")
    if java is None:
        raise NotAvailable("no Java")
    said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False).stderr
    version = re.search(r'version "(\d+)', said)
    if version is None or int(version[1]) < _JAVA_MIN:
        raise NotAvailable(f"no Java {_JAVA_MIN} or newer")


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_INSTALL_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotAvailable(f"{RIVAL_ENVIRONMENT.name} cannot be made: {error}") from error
    if done.returncode != 0:
        last = (done.stderr.strip() or done.stdout.strip() or "no reason given").splitlines()[-1]
        raise NotAvailable(f"{RIVAL_ENVIRONMENT.name} cannot be made: {last}")
