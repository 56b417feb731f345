"""What the release before has written is read as it was meant: samples of every format, frozen (`make_samples.py`)."""

from __future__ import annotations

import base64
import json
import shutil
from pathlib import Path
from typing import Any

import known
import msgspec
import polars as pl
import predecessor
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import load_der_x509_certificate, load_pem_x509_certificate
from predecessor import ROOT

import query.plan.wire
from agent.archive.format.log import VERSION as ARCHIVE_VERSION
from agent.archive.format.log import read_info, read_state
from agent.archive.format.segments import SEGMENTS_DIRECTORY
from agent.configuration.config import load_config
from agent.control.messages import PROTOCOL, Answer, Request
from agent.daemon.data_directory import FORMAT, ClockFile, DataDirectory
from agent.daemon.sealed_files import SealedFiles
from agent.durable_files import write_durably
from agent.enrolment.messages import Greeting, ServiceAnswer
from agent.enrolment.token import PREFIX, fingerprint_of, read_token
from agent.enrolment.token_register import TokenRefusedError, TokenRegister
from agent.errors import StartError
from agent.runtime.fleet.authorization import NotAuthorizedError
from agent.runtime.fleet.ended_mandates import EndedMandates
from agent.runtime.messages.job_records import RECORDS
from agent.runtime.messages.jobs import CODEC
from agent.runtime.model.bundle import Bundle, Signature
from agent.runtime.model.mandate import Mandate, signed_bytes
from cbt import encode_frame
from cbt.aggregates.functions import FUNCTIONS
from overlay import Authority, AuthorityDirectory, Id, Revocations, WireError, app_id, certificate_uris, read_uri
from overlay.core.outbox import CODEC as OVERLAY
from overlay.transport.link import framing
from overlay.transport.link.framing import FrameReader, fleet_tag
from overlay.transport.link.hello import HELLO_CODEC

SAMPLES = Path(__file__).parent / "samples"
MESSAGES: dict[str, dict[str, str]] = json.loads((SAMPLES / "messages.json").read_text())


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory as the release before has left it."""
    return Path(shutil.copytree(SAMPLES / "data", tmp_path / "data"))


# Between agents.


def test_the_first_frame_of_an_agent() -> None:
    (frame,) = FrameReader(fleet_tag("shop")).feed((SAMPLES / "hello.frame").read_bytes())
    hello = HELLO_CODEC.decode(bytes(frame.body))
    assert (hello.node_id, hello.address, hello.incarnation, hello.name) == (5, "127.0.0.1:7700", 3, "web-1")


@pytest.mark.parametrize(("kind", "codec"), [("overlay", OVERLAY), ("job", CODEC), ("records", RECORDS)])
def test_messages_are_read_and_written_as_before(kind: str, codec: Any) -> None:
    """An agent of the release before reads what one of this release sends: nothing it knows is missing or moved."""
    for name, sample in MESSAGES[kind].items():
        encoded = base64.b64decode(sample)
        message = codec.decode(encoded)
        assert type(message).__name__ == name
        assert covers(msgspec.msgpack.decode(codec.encode(message)), msgspec.msgpack.decode(encoded)), name


def covers(new: Any, old: Any) -> bool:
    """Whether an encoded message has all that an old one has. New keys are of no concern to their readers, but longer
    arrays are refused."""
    if isinstance(old, dict):
        return isinstance(new, dict) and all(key in new and covers(new[key], value) for key, value in old.items())
    if isinstance(old, list):
        return isinstance(new, list) and len(new) == len(old) and all(map(covers, new, old))
    return bool(new == old)


@pytest.mark.parametrize(("kind", "codec"), [("job", CODEC), ("records", RECORDS)])
def test_how_older_windows_go_on_travels_beside_the_versions(kind: str, codec: Any) -> None:
    """Whose fields are those that the release before knows."""
    carriers = 0
    for name, sample in MESSAGES[kind].items():
        encoded = base64.b64decode(sample)
        if versions := getattr(message := codec.decode(encoded), "versions", None):
            carriers += 1
            later = msgspec.structs.replace(versions[0], number=2, finishes="own", leaves_out=True)
            changed = msgspec.structs.replace(message, versions=[*versions, later])
            assert codec.decode(codec.encode(changed)) == changed
            sent = msgspec.msgpack.decode(codec.encode(changed))
            (old,) = msgspec.msgpack.decode(encoded)["versions"]
            assert sent["versions"] == [old, [2, *old[1:]]], name
            with pytest.raises(WireError, match="2 versions go on, of 1"):
                codec.decode(msgspec.msgpack.encode(sent | {"versions": [old]}))
    assert carriers > 0


def test_a_later_release_may_add_fields_at_the_end() -> None:
    for name, sample in MESSAGES["overlay"].items():
        fields = msgspec.msgpack.decode(base64.b64decode(sample))
        message = OVERLAY.decode(msgspec.msgpack.encode([*fields, "of a later release"]))
        assert (type(message).__name__, OVERLAY.encode(message)) == (name, base64.b64decode(sample))


def test_a_plan() -> None:
    plan = query.Plan.from_wire(msgspec.msgpack.decode(base64.b64decode(MESSAGES["plan"]["Plan"])))
    assert plan.to_wire() == query.analyze(query.parse(known.QUERY), {"web": query.Schema({}, open=True)}).to_wire()


def test_what_a_creator_has_signed() -> None:
    bundle = msgspec.msgpack.decode((SAMPLES / "bundle").read_bytes(), type=Bundle)
    certificate = load_der_x509_certificate(bundle.seal.certificate)
    authority = load_pem_x509_certificate((SAMPLES / "ca.pem").read_bytes())
    certificate.verify_directly_issued_by(authority)
    fleet, role, _ = read_uri(certificate_uris(certificate))
    assert (fleet, role) == ("shop", "creator")
    key = certificate.public_key()
    assert isinstance(key, Ed25519PublicKey)
    app = app_id("campaign", key.public_bytes_raw())
    mandate = Mandate(app, 1, b"", 2_000_000_000_000, bundle.contents.digest())
    key.verify(bundle.seal.signature, signed_bytes(mandate, "shop"))


def test_certificates_and_lists_of_revoked_ones() -> None:
    certificate = load_pem_x509_certificate((SAMPLES / "agent.pem").read_bytes())
    assert read_uri(certificate_uris(certificate)) == ("shop", "agent", 5)
    authority = load_pem_x509_certificate((SAMPLES / "ca.pem").read_bytes())
    revocations = Revocations([authority.public_bytes(Encoding.DER)])
    revocations.take((SAMPLES / "revoked.pem").read_bytes())
    assert revocations.is_revoked(77)


# Between clients and agents.


@pytest.mark.parametrize(("kind", "union"), [("requests", Request), ("answers", Answer)])
def test_clients_and_agents_understand_each_other(kind: str, union: Any) -> None:
    """Requests have no key that the release before does not know, so that it takes them; answers have all it knows."""
    for name, sample in MESSAGES[kind].items():
        message = msgspec.json.decode(sample, type=union)
        assert type(message).__name__ == name
        new, old = msgspec.json.decode(msgspec.json.encode(message)), msgspec.json.decode(sample)
        assert covers(new, old) if kind == "answers" else covers(old, new), name


def test_enrolment(tmp_path: Path) -> None:
    greeting = msgspec.json.decode((SAMPLES / "greeting.json").read_bytes(), type=ServiceAnswer)
    assert isinstance(greeting, Greeting)
    assert (greeting.fleet, greeting.time_ms, greeting.version) == ("shop", 1_700_000_000_000, 1)
    token = read_token((SAMPLES / "token").read_text())
    assert token.fingerprint == fingerprint_of(b"certificate")
    directory = AuthorityDirectory.create(tmp_path / "ca", Authority.create("shop"), None)
    shutil.copy(SAMPLES / "tokens.json", directory.path / "tokens.json")
    with pytest.raises(TokenRefusedError, match="this token expired at"):
        TokenRegister(directory).use(token.secret, "web-2", b"key", load_pem_x509_certificate(
            (SAMPLES / "agent.pem").read_bytes()).not_valid_after_utc)  # fmt: skip


# On disk.


def test_the_data_directory_is_taken_over(data: Path) -> None:
    with DataDirectory(data) as directory:
        assert directory.next_incarnation(0) == 4
        assert directory.epochs().counters == known.EPOCHS
        kept = directory.job_files().read().jobs
        assert list(kept) == [6]
        assert ClockFile(data / "clock", "boot", 0, lambda *_: None).read() == known.LEAD_MS
        ended = EndedMandates()
        assert ended.load(directory.ended_mandates())
        with pytest.raises(NotAuthorizedError):
            ended.check(Id(7), Signature(b"certificate", 4, b"", 2_000_000_000_000, bytes(64)))
    assert (data / "format").read_text() == "1\n"


def test_sealed_panes_and_places_in_logs(data: Path) -> None:
    warnings: list[str] = []
    files = SealedFiles(data / "sealed", 4, 1 << 20, lambda what, _why: warnings.append(what))
    assert files.positions == known.positions()
    sealed = known.sealed_run()
    (chain,) = files.chains[known.JOB].values()
    (run,) = chain.runs
    assert (chain.function, run.after, run.upto, run.counted) == (b"function", 0, 10, sealed.run.counted)
    assert run.state == encode_frame(pl.DataFrame({"pane": [10], "hits": [3]}))
    assert files.places[sealed.chain] == {"web": known.place()}
    assert not warnings


def test_a_tree_with_every_function() -> None:
    """Sketches too: what they hold is compared byte by byte with what the same rows give now."""
    before, now = known.tree(), known.tree()
    before.restore((SAMPLES / "tree.snapshot").read_bytes())
    now.insert(known.ROWS)
    assert pl.concat(before.flush()).equals(pl.concat(now.flush()))


def test_what_the_tree_does_not_have_is_what_the_release_before_did_not() -> None:
    source = predecessor.file("cbt/aggregates/functions.py")
    assert {name for name in FUNCTIONS if f'    "{name}": PaoFunction(' not in source} == known.NEWER


def test_an_archive() -> None:
    store = SAMPLES / "archive"
    assert read_info(store).agent == "web-1"
    (segment,) = read_state(store).segments.values()
    assert pl.read_parquet(store / SEGMENTS_DIRECTORY / f"{segment.name}.parquet").height == segment.rows == 9


def test_a_configuration() -> None:
    assert load_config(SAMPLES / "agent.toml").fleet == "shop"


# Beyond.


def test_what_a_later_release_has_left_is_not_touched(data: Path) -> None:
    write_durably(data / "format", b"2\n")
    with pytest.raises(
        StartError, match="a later ELF has left it, in format 2; this one reads up to 1: start that"
    ) as e:
        DataDirectory(data).__enter__()
    assert "\n" not in str(e.value)
    assert (data / "incarnation").read_text() == "3\n"
    write_durably(data / "format", b"")  # a disk without order: it is as if it were not there
    with DataDirectory(data) as directory:
        assert directory.next_incarnation(0) == 4


@pytest.mark.parametrize(
    ("row", "version"),
    [
        ("same in all versions: {}", framing.VERSION),
        ("`version` in the plan: {}", query.plan.wire.WIRE_VERSION),
        ("the file `format`: {}", FORMAT),
        ("`log/` of the archive: {}", ARCHIVE_VERSION),
        ("absent in version {}", PROTOCOL),
        ("in their first letters: `{}`", PREFIX),
        ("`ELF-CBT`, then the version: {}", int.from_bytes(known.tree().snapshot()[8:10], "little")),
    ],
)
def test_the_page_has_the_versions_of_this_release(row: str, version: object) -> None:
    assert row.format(version) in (ROOT / "docs" / "compatibility.md").read_text()
