"""A fleet of agents each on a host of its own: in a network namespace, with a small disk for its data."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.networks import Host, Network
from elf.demo.agents.agent_process import AgentProcess
from elf.demo.agents.agents import AgentFleet, AgentSpec

PORT = 7000
DISK_BYTES = 16 << 20
"""Size of the disk that an agent has for its data."""
FILLER = "filler"
BLOCK = bytes(1 << 16)
LOSS_PERCENT = 10


class HostedProcess(AgentProcess):
    """An agent that runs on a host."""

    def __init__(self, host: Host, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.host = host

    @property
    def address(self) -> str:
        return f"{self.host.address}:{self.port}"

    def launch(self, *, again: bool = False) -> None:
        with self.host.entered():
            super().launch(again=again)


class HostedFleet(AgentFleet):
    """The agents of a fleet on the hosts of a network, one each."""

    def __init__(self, directory: Path, agents: Sequence[AgentSpec], network: Network) -> None:
        super().__init__(directory, agents, fleet="chaos")
        self._hosts = dict(zip((agent.name for agent in agents), network.hosts, strict=True))

    def _new_process(self, name: str, **options: Any) -> AgentProcess:
        return HostedProcess(self._hosts[name], name, self.directory / name, **{**options, "port": PORT})

    def host(self, name: str) -> Host:
        return self._hosts[name]

    def cut(self, few: Sequence[str], *, one_way: bool) -> None:
        """Keeps what the others send from reaching a few hosts, and unless `one_way`, what those send the others."""
        inside = [self._hosts[name] for name in few]
        outside = [host for host in self._hosts.values() if host not in inside]
        for host in inside:
            host.ignore(outside)
        for host in outside if not one_way else ():
            host.ignore(inside)

    def lose(self, names: Iterable[str]) -> None:
        """Loses a part of what reaches these hosts."""
        for name in names:
            self._hosts[name].lose(LOSS_PERCENT)

    def heal(self) -> None:
        """Takes all cuts and losses away."""
        for host in self._hosts.values():
            host.heal()


class SmallDisks:
    """`with SmallDisks(folders)`: each of these folders is a disk of its own, which can be filled."""

    def __init__(self, folders: Mapping[str, Path]) -> None:
        self._folders = dict(folders)
        self._mounted: list[Path] = []

    def __enter__(self) -> "SmallDisks":
        try:
            for folder in self._folders.values():
                folder.mkdir(parents=True, exist_ok=True)
                options = f"size={DISK_BYTES},mode=0750"
                subprocess.run(["mount", "-t", "tmpfs", "-o", options, "elf-chaos", str(folder)], check=True)
                self._mounted.append(folder)
        except BaseException:
            self._release()
            raise
        return self

    def __exit__(self, *_about: object) -> None:
        self._release()

    def _release(self) -> None:
        for folder in self._mounted:
            subprocess.run(["umount", "-l", str(folder)], check=False)
        self._mounted.clear()

    def fill(self, name: str) -> None:
        """Leaves not a byte of an agent's disk free."""
        with (self._folders[name] / FILLER).open("wb", buffering=0) as file:
            for block in (BLOCK, b"\0"):
                try:
                    while file.write(block):
                        pass
                except OSError:
                    continue

    def free(self, name: str) -> None:
        """Makes room again."""
        (self._folders[name] / FILLER).unlink(missing_ok=True)


def disks_unavailable() -> str | None:
    """A reason why there can be no small disks here; None if there can."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        return "not permitted to mount small disks (root may)"
    with tempfile.TemporaryDirectory(prefix="elf-chaos-") as folder:
        try:
            with SmallDisks({"": Path(folder) / "disk"}):
                return None
        except subprocess.CalledProcessError as error:
            return f"small disks do not work here: {error}"
