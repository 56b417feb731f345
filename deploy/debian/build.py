"""Builds the Debian package: `make deb`, or `python3 deploy/debian/build.py --help`.

The package holds an environment of its own below /usr/lib/elf: ELF and its libraries, at the versions of
constraints.txt, for the distribution's Python. Needs that Python with `venv`, `pip`, a C compiler or the wheel
`ziglang`, and `dpkg-deb`.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path

ROOT = Path(__file__).parents[2]
DEBIAN = Path(__file__).parent
NAME = "elf-agent"
PREFIX = Path("usr/lib/elf")
MAINTAINER = "The authors of ELF <root@localhost>"
DEPENDS = ("python3", "adduser", "libc6 (>= 2.31)")
DESCRIPTION = """\
agent that answers questions about web server logs where they are written
 One small agent sits beside each web server, pre-aggregates what its log says,
 and joins the other agents in a peer-to-peer overlay; a query in ELF QL, asked
 at any of them, is answered by the whole fleet, live, every few seconds.
 .
 The package has the agent with its systemd unit, the command elf, and all the
 libraries they need."""
DOCUMENTS = (
    "README.md", "docs/installing.md", "docs/running-agents.md", "docs/rights.md", "docs/elf-ql.md",
    "docs/asking-a-fleet.md",
)  # fmt: skip
EXAMPLES = ("agent.toml.example", "nginx", "apache", "logrotate", "rsyslog")
UNITS = ("elf-agent.service",)
COMPLETIONS = {
    "bash": "usr/share/bash-completion/completions/elf",
    "zsh": "usr/share/zsh/vendor-completions/_elf",
    "fish": "usr/share/fish/vendor_completions.d/elf.fish",
}
SCRIPTS = ("postinst", "prerm", "postrm")
LAUNCHER = """\
#!/{prefix}/bin/python -I
import sys

from elf.cli import main

if __name__ == "__main__":
    sys.exit(main())
"""


class Build:
    """One package, staged below a folder."""

    def __init__(self, stage: Path, python: str, version: str, maintainer: str, epoch: str) -> None:
        self.stage = stage
        self.prefix = stage / PREFIX
        self.version = version
        self.environment = os.environ | {"SOURCE_DATE_EPOCH": epoch, "PYTHONDONTWRITEBYTECODE": "1"}
        self._python = python
        self._maintainer = maintainer
        self._interpreter = self._says("import sys; print('python%d.%d' % sys.version_info[:2])")

    def run(self, output: Path) -> Path:
        """Stages everything and packs it; returns the package."""
        self.install_environment()
        self.install_command()
        self.install_files()
        self.compile()
        return self.pack(output)

    def install_environment(self) -> None:
        """The environment, with nothing in its `bin` but Python and `elf`."""
        self._run(self._python, "-m", "venv", "--without-pip", self.prefix)
        self._run(
            sys.executable, "-m", "pip", "--python", self.prefix / "bin/python", "--disable-pip-version-check",
            "install", "--quiet", "--no-compile", "-c", ROOT / "constraints.txt", ROOT,
        )  # fmt: skip
        home = Path("/usr/bin")
        shutil.rmtree(self.prefix / "bin")
        shutil.rmtree(self.prefix / "include", ignore_errors=True)
        (self.prefix / "lib64").unlink(missing_ok=True)
        (self.prefix / "bin").mkdir()
        (self.prefix / "bin/python").symlink_to(home / self._interpreter)
        (self.prefix / "pyvenv.cfg").write_text(f"home = {home}\ninclude-system-site-packages = false\n")
        for direct in self.prefix.rglob("direct_url.json"):  # the folder it was built in
            direct.unlink()
        for folder in ("numpy/tests", "numpy/*/tests"):
            for found in self._packages().glob(folder):
                shutil.rmtree(found)

    def install_command(self) -> None:
        """The command, its manual pages, and its completions."""
        launcher = self.prefix / "bin/elf"
        launcher.write_text(LAUNCHER.format(prefix=PREFIX))
        launcher.chmod(0o755)
        link = self.stage / "usr/bin/elf"
        link.parent.mkdir(parents=True)
        link.symlink_to(f"../{PREFIX.relative_to('usr')}/bin/elf")
        python = self.prefix / "bin/python"
        pages = self.stage / "usr/share/man/man1"
        self._run(python, "-IB", DEBIAN / "man_pages.py", pages, self.version)
        for page in sorted(pages.iterdir()):
            compress(page)
        for shell, place in COMPLETIONS.items():
            command = [python, "-IB", "-c", "from elf.cli import main; main()", "completion", shell]
            found = subprocess.run(command, check=True, capture_output=True, text=True, env=self.environment)
            self._write(place, found.stdout)

    def install_files(self) -> None:
        """Units, documents, examples, and the configuration that a new machine begins with."""
        for unit in UNITS:
            self._copy(ROOT / "deploy/systemd" / unit, f"usr/lib/systemd/system/{unit}")
        self._copy(DEBIAN / "agent.toml", "usr/share/elf/agent.toml")
        documents = f"usr/share/doc/{NAME}"
        for document in DOCUMENTS:
            self._copy(ROOT / document, f"{documents}/{Path(document).name}")
        for example in EXAMPLES:
            source = ROOT / "deploy" / example
            for file in source.iterdir() if source.is_dir() else (source,):
                folder = f"{example}/" if source.is_dir() else ""
                self._copy(file, f"{documents}/examples/{folder}{file.name}")
        self._copy(DEBIAN / "copyright", f"{documents}/copyright")
        self._copy(DEBIAN / "lintian-overrides", f"usr/share/lintian/overrides/{NAME}")
        self._copy(ROOT / "CHANGELOG.md", f"{documents}/CHANGELOG.md")
        self._write(f"{documents}/changelog", self._changelog())
        for name in ("CHANGELOG.md", "changelog"):
            compress(self.stage / documents / name)

    def compile(self) -> None:
        """Bytecode that is used whatever the times of files are, so that the agent starts fast and writes nothing."""
        places = ["-s", str(self.stage), "-p", "/"]
        self._run(
            self.prefix / "bin/python", "-I", "-m", "compileall", "-q", "-f", "-j", "0", *places,
            "--invalidation-mode", "unchecked-hash", self._packages(), allowed=(0, 1),
        )  # fmt: skip

    def pack(self, output: Path) -> Path:
        """The package, and what dpkg has to know of it."""
        for path in (self.stage, *self.stage.rglob("*")):
            if not path.is_symlink():
                executable = path.is_dir() or (path.stat().st_mode & 0o100 and self._is_program(path))
                path.chmod(0o755 if executable else 0o644)
        control = self.stage / "DEBIAN"
        control.mkdir()
        (control / "md5sums").write_text(self._sums())
        (control / "control").write_text(self._control())
        for script in SCRIPTS:
            shutil.copy(DEBIAN / script, control / script)
            (control / script).chmod(0o755)
        package = output / f"{NAME}_{self.version}_{self._architecture()}.deb"
        output.mkdir(parents=True, exist_ok=True)
        # The fastest level of xz: zstd is half as slow, but lintian and other tools of Debian 12 do not read it.
        self._run("dpkg-deb", "--root-owner-group", "-Zxz", "-z0", "--build", self.stage, package)
        return package

    def _is_program(self, path: Path) -> bool:
        """Whether a file is meant to be run; wheels mark many that are not."""
        with path.open("rb") as file:
            return file.read(2) == b"#!"

    def _control(self) -> str:
        size = sum(path.lstat().st_size for path in self.stage.rglob("*") if not path.is_dir()) >> 10
        depends = ", ".join((self._interpreter, *DEPENDS))
        return (
            f"Package: {NAME}\nVersion: {self.version}\nArchitecture: {self._architecture()}\nSection: admin\n"
            f"Priority: optional\nMaintainer: {self._maintainer}\n"
            f"Installed-Size: {size}\nDepends: {depends}\nSuggests: nginx | apache2\n"
            f"Description: {DESCRIPTION}\n"
        )

    def _changelog(self) -> str:
        """Dpkg's list of versions, which has the newest alone."""
        date = format_datetime(datetime.fromtimestamp(int(self.environment["SOURCE_DATE_EPOCH"]), UTC))
        head = f"{NAME} ({self.version}) stable; urgency=medium"
        return f"{head}\n\n  * See CHANGELOG.md.gz.\n\n -- {self._maintainer}  {date}\n"

    def _sums(self) -> str:
        files = sorted(path for path in self.stage.rglob("*") if path.is_file() and not path.is_symlink())
        lines = (
            f"{hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()}  {path.relative_to(self.stage)}\n"
            for path in files
            if path.relative_to(self.stage).parts[0] != "DEBIAN"
        )
        return "".join(lines)

    def _packages(self) -> Path:
        return self.prefix / "lib" / self._interpreter / "site-packages"

    def _architecture(self) -> str:
        found = subprocess.run(["dpkg", "--print-architecture"], check=True, capture_output=True, text=True)
        return found.stdout.strip()

    def _says(self, code: str) -> str:
        return subprocess.run([self._python, "-c", code], check=True, capture_output=True, text=True).stdout.strip()

    def _copy(self, source: Path, place: str) -> None:
        target = self.stage / place
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)

    def _write(self, place: str, text: str) -> None:
        target = self.stage / place
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def _run(self, *command: str | Path, allowed: Sequence[int] = (0,)) -> None:
        code = subprocess.run([str(part) for part in command], env=self.environment, check=False).returncode
        if code not in allowed:
            raise SystemExit(f"{Path(command[0]).name} ended with exit code {code}")


def compress(path: Path) -> None:
    """Replaces a file by its compressed form, the same on every machine."""
    packed = gzip.compress(path.read_bytes(), 9, mtime=0)
    path.unlink()
    path.with_name(f"{path.name}.gz").write_bytes(packed)


def commit_time() -> str:
    """The time of the last commit, so that one commit makes one package; 0 outside of a repository."""
    command = ["git", "-C", str(ROOT), "log", "-1", "--format=%ct"]
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip() or "0"
    except (OSError, subprocess.CalledProcessError):
        return "0"


def main() -> None:
    """Builds the package into a folder and prints its path."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    parser = argparse.ArgumentParser(description="Build the Debian package of the agent.")
    parser.add_argument("--python", default="/usr/bin/python3", help="the distribution's Python (default: %(default)s)")
    parser.add_argument("--version", default=project["version"], help="(default: %(default)s)")
    parser.add_argument("--maintainer", default=MAINTAINER, help="who builds it (default: %(default)s)")
    parser.add_argument("--output", type=Path, default=ROOT / "dist", help="folder (default: dist)")
    options = parser.parse_args()
    if shutil.which("dpkg-deb") is None:
        sys.exit("there is no dpkg-deb here: a Debian package is built on Debian or its kin")
    epoch = os.environ.get("SOURCE_DATE_EPOCH") or commit_time()
    with tempfile.TemporaryDirectory(prefix="elf-deb-") as folder:
        print(
            Build(Path(folder) / "package", options.python, options.version, options.maintainer, epoch).run(
                options.output
            )
        )


if __name__ == "__main__":
    main()
