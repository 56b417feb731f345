"""An agent with rules for every role, and those who have them, over its socket and over TLS."""

from __future__ import annotations

import os
from pathlib import Path

from agent_process import AgentProcess, free_port
from live_clients import Asker, RemoteCreator, SocketUser

from elf.client.sync_client import SyncClient
from overlay import Authority, CreatorFiles, read_public_key

ROLES = ("nobody", "reader", "asker", "operator")
UIDS = dict(zip(ROLES, range(4001, 4005), strict=True))
QUERY = "SELECT COUNT(*) AS n FROM web WINDOWING 1 SECOND"
ACCESS = """
[[access]]
role = "read"
users = ["4002"]
creators = ["reader"]
[[access]]
role = "query"
users = ["4003"]
creators = ["asker"]
apps = []
[[access]]
role = "operate"
users = ["4004"]
creators = ["operator"]
"""


class World:
    """One agent with every role; `more` are rules beside these."""

    def __init__(self, folder: Path, more: str = "") -> None:
        folder.chmod(0o755)
        self.folder = folder
        self.authority = Authority.create("shop")
        self.agent = AgentProcess(folder / "agent", self.authority)
        self.agent.folder.chmod(0o755)
        self.socket, self.port = folder / "control.sock", free_port()
        self.agent.change('data_directory = "data"', f'data_directory = "data"\ncontrol_socket = "{self.socket}"')
        self.agent.config += f'[clients]\nlisten = "127.0.0.1:{self.port}"\n{ACCESS}{more}'

    def askers(self, way: str) -> dict[str, Asker]:
        if way == "socket":
            return {role: SocketUser(self.socket, UIDS[role], os.getgid()) for role in ROLES}
        return {role: RemoteCreator(f"127.0.0.1:{self.port}", self.creator(role)) for role in ROLES}

    def creator(self, name: str, authority: Authority | None = None) -> Path:
        """The folder of a creator, made as `elf creator` does."""
        folder = self.folder / f"creator-{name}"
        if not folder.exists():
            files = CreatorFiles(folder)
            files.create(name, None)
            maker = authority or self.authority
            files.certificate_file.write_bytes(maker.trust(name, read_public_key(files.public_file)))
            (folder / "ca.pem").write_bytes(self.authority.certificate_pem)
        return folder

    def client(self) -> SyncClient:
        return SyncClient(str(self.socket), 60.0)
