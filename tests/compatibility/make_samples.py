"""Writes samples of all formats with the code of the release before: `python tests/compatibility/make_samples.py`.

`samples` is what tests read with the present code. It is made anew when `tests/predecessor.py` names another release,
and at no other time: what a test does not read any more, agents do not either.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

SAMPLES = Path(__file__).parent / "samples"
ROOT = Path(__file__).parents[2]


def main() -> None:
    """Runs this file again with the code of the release before."""
    sys.path.insert(0, str(ROOT / "tests"))
    from predecessor import unpack

    with tempfile.TemporaryDirectory() as folder:
        tree = unpack(Path(folder))
        command = [sys.executable, __file__, "with", str(tree)]
        subprocess.run(command, cwd=tree, env={**os.environ, "PYTHONPATH": str(tree)}, check=True)


def write(tree: Path) -> None:
    """Writes all samples."""
    import agent

    assert Path(agent.__file__).is_relative_to(tree), agent.__file__
    shutil.rmtree(SAMPLES, ignore_errors=True)
    SAMPLES.mkdir()
    _write_messages()
    _write_data_directory(SAMPLES / "data")
    _write_archive(SAMPLES / "archive")
    _write_authority(SAMPLES)
    shutil.copy(tree / "deploy/agent.toml.example", SAMPLES / "agent.toml")
    import known

    full = known.tree()
    full.insert(known.ROWS)
    (SAMPLES / "tree.snapshot").write_bytes(full.snapshot())


def _write_messages() -> None:
    import known
    import msgspec

    import query
    from agent.runtime.messages.job_records import RECORDS
    from agent.runtime.messages.jobs import CODEC
    from overlay import Id
    from overlay.core.outbox import CODEC as OVERLAY
    from overlay.transport.link.framing import FrameKind, FrameWriter, fleet_tag
    from overlay.transport.link.hello import HELLO_CODEC, Hello

    hello = HELLO_CODEC.encode(Hello(Id(5), "127.0.0.1:7700", 3, "web-1"))
    (SAMPLES / "hello.frame").write_bytes(FrameWriter(fleet_tag("shop")).frame(FrameKind.HELLO, hello))
    plan = query.analyze(query.parse(known.QUERY), {"web": query.Schema({}, open=True)}).to_wire()
    found = {
        "overlay": {type(one).__name__: _text(OVERLAY.encode(one)) for one in known.overlay_messages()},
        "job": {type(one).__name__: _text(CODEC.encode(one)) for one in known.job_messages()},
        "records": {type(one).__name__: _text(RECORDS.encode(one)) for one in known.job_records()},
        "requests": {type(one).__name__: msgspec.json.encode(one).decode() for one in known.requests()},
        "answers": {type(one).__name__: msgspec.json.encode(one).decode() for one in known.answers()},
        "plan": {"Plan": _text(msgspec.msgpack.encode(plan))},
    }
    (SAMPLES / "messages.json").write_text(json.dumps(found, indent=0) + "\n")


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _write_data_directory(path: Path) -> None:
    import known

    from agent.daemon.data_directory import ClockFile, DataDirectory
    from agent.daemon.sealed_files import SealedFiles
    from agent.runtime.fleet.ended_mandates import EndedMandates
    from agent.runtime.model.bundle import Signature
    from overlay import EpochTaken, Id

    with DataDirectory(path) as directory:
        for _ in range(3):
            directory.next_incarnation(0)
        directory.epochs().note(EpochTaken(group, counter) for group, counter in known.EPOCHS.items())
        directory.job_files().write([*known.job_records()][:2])
        SealedFiles(path / "sealed", 3, 1 << 20, print).write(known.positions(), [known.sealed_run()])
        ClockFile(path / "clock", "boot", 0, print).keep(known.LEAD_MS)
        ended = EndedMandates()
        ended.save = directory.keep_ended_mandates
        ended.note(Id(7), Signature(b"certificate", 4, b"", 2_000_000_000_000, bytes(64)), 0)
    (path / "lock").unlink()


def _write_archive(path: Path) -> None:
    from agent.archive.format.log import commit, create_store
    from agent.archive.format.rows import FileOrigin, RowReader
    from agent.archive.format.segments import write_segment
    from agent.parsing import sniff
    from agent.sources import Block, Origin

    create_store(path, "web-1")
    lines = b"".join(b'{"time": 1700000000.%d, "n": %d}\n' % (n, n) for n in range(9))
    reader = RowReader(FileOrigin("web", "web-1", "access.log", 7, sniff(lines, "access.log")))
    rows = reader.read(Block(lines, Origin("access.log", 0), 0), 1_700_000_001_000)
    assert rows is not None
    commit(path, 1_700_000_002_000, add=[write_segment(path, [rows], 1_700_000_002_000)])


def _write_authority(path: Path) -> None:
    """Certificates without their keys, which are forgotten; a token, and a bundle that a creator has signed."""
    import msgspec
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding
    from cryptography.x509 import load_pem_x509_certificate

    from agent.enrolment.messages import Greeting
    from agent.enrolment.token_register import TokenRegister
    from agent.runtime.model.bundle import Bundle, Contents, Function, Signature
    from agent.runtime.model.mandate import Mandate, signed_bytes
    from overlay import Authority, AuthorityDirectory, Revocation, app_id

    authority = Authority.create("shop")
    (path / "ca.pem").write_bytes(authority.certificate_pem)
    (path / "revoked.pem").write_bytes(authority.revocation_list(3, [Revocation(77, datetime.now(UTC))]))
    with tempfile.TemporaryDirectory() as folder:
        authority.issue("web-1", node_id=5).save(path / "agent.pem", Path(folder) / "agent.key")
        directory = AuthorityDirectory.create(Path(folder) / "ca", authority, None)
        token = TokenRegister(directory).new(b"certificate", 60, "web-2", datetime.now(UTC))
        shutil.copy(directory.path / "tokens.json", path / "tokens.json")
    (path / "token").write_text(token.text)
    greeting = Greeting("shop", authority.certificate_pem.decode(), 1_700_000_000_000)
    (path / "greeting.json").write_bytes(msgspec.json.encode(greeting))
    key = Ed25519PrivateKey.generate()
    public = key.public_key().public_bytes_raw()
    trusted = load_pem_x509_certificate(authority.trust("maria", public))
    contents = Contents([Function("query", {"version": 1}, "SELECT 1")], b"import elf\n")
    mandate = Mandate(app_id("campaign", public), 1, b"", 2_000_000_000_000, contents.digest())
    signature = key.sign(signed_bytes(mandate, "shop"))
    seal = Signature(trusted.public_bytes(Encoding.DER), 1, b"", 2_000_000_000_000, signature)
    (path / "bundle").write_bytes(msgspec.msgpack.encode(Bundle(contents, seal)))


if __name__ == "__main__":
    if sys.argv[1:2] == ["with"]:
        write(Path(sys.argv[2]))
    else:
        main()
