"""Stores: entries that say together which segments there are, whatever was folded, torn or left behind."""

from pathlib import Path

import msgspec
import polars as pl
import pytest
from archived import rows_of_text

from agent.archive.format.log import (
    ArchiveError,
    commit,
    create_store,
    read_info,
    read_state,
)
from agent.archive.format.positions import FilePosition, StreamPositions
from agent.archive.format.segments import write_segment

LINES = b'{"time": 5, "a": 1}\n{"time": 3, "a": 2}\n'


@pytest.fixture
def store(tmp_path: Path) -> Path:
    create_store(tmp_path / "store", "web-1")
    return tmp_path / "store"


def positions(sequence: int, offset: int = 0) -> StreamPositions:
    return StreamPositions(sequence, [FilePosition("a.log", 1, 2, 0, "", offset, 7, None)])


def test_a_segment_is_there_once_it_is_committed(store: Path) -> None:
    segment = write_segment(store, rows_of_text(LINES), 9)
    assert read_state(store).segments == {}
    commit(store, 10, add=[segment], positions={"web": positions(1, 38)})
    found = read_state(store)
    assert read_info(store).agent == "web-1"
    assert found.segments == {segment.name: segment}
    assert found.positions == {"web": positions(1, 38)}
    assert (segment.rows, segment.from_ms, segment.to_ms, segment.origins) == (2, 3000, 5000, [(7, 0, len(LINES))])
    frame = pl.read_parquet(store / segment.file)
    assert frame["key"].is_sorted()
    assert [key.hex() for key in frame["key"]] == [segment.first_key, segment.last_key]
    assert (store / segment.file).stat().st_size == segment.bytes


def test_what_is_removed_is_gone_whoever_commits_first(store: Path) -> None:
    one, other = (write_segment(store, rows_of_text(LINES), 9) for _ in range(2))
    commit(store, 30, remove=[one.name])
    commit(store, 20, add=[one, other])
    state = read_state(store)
    assert set(state.segments) == {other.name}
    assert state.removed == {one.name: 30}


def test_folded_entries_count_once_and_not_at_all_when_they_are_gone(store: Path) -> None:
    one, other = (write_segment(store, rows_of_text(LINES), 9) for _ in range(2))
    names = [commit(store, 10, add=[one]), commit(store, 11, remove=[one.name], add=[other])]
    commit(store, 12, add=[other], replaces=names, positions={"web": positions(3)})
    assert set(read_state(store).segments) == {other.name}
    (store / "log" / names[1]).unlink()
    assert set(read_state(store).segments) == {other.name}


def test_the_latest_positions_count_whatever_the_clock_said(store: Path) -> None:
    commit(store, 50, positions={"web": positions(2), "api": positions(1)})
    commit(store, 40, positions={"web": positions(3)})
    assert read_state(store).positions == {"web": positions(3), "api": positions(1)}


def test_unfinished_files_of_a_log_are_nothing(store: Path) -> None:
    (store / "log" / ".0000000000010-0123456789abcdef0123456789abcdef.json.new").write_bytes(b"{")
    (store / "log" / "README").write_bytes(b"hello")
    assert read_state(store).entries == {}


@pytest.mark.parametrize("content", [b"", b"{", b'{"version": 1}', b"\xff\xfe", b'{"version": 1, "written_ms": 5'])
def test_a_torn_entry_is_named(store: Path, content: bytes) -> None:
    name = commit(store, 10)
    (store / "log" / name).write_bytes(content)
    with pytest.raises(ArchiveError, match=rf"{name}: is damaged .* restore it"):
        read_state(store)


def test_entries_and_stores_of_other_versions_are_refused(store: Path) -> None:
    name = commit(store, 10)
    (store / "log" / name).write_bytes(b'{"version": 2, "written_ms": 5}')
    with pytest.raises(
        ArchiveError, match="is of format 2 of archives, and this ELF reads format 1: use the release that wrote it"
    ):
        read_state(store)
    (store / "store.json").write_bytes(b'{"version": 2, "agent": "web-1", "id": "x"}')
    with pytest.raises(
        ArchiveError, match="is of format 2 of archives, and this ELF reads format 1: use the release that wrote it"
    ):
        read_info(store)


def test_a_folder_that_is_no_store_is_told(tmp_path: Path, store: Path) -> None:
    with pytest.raises(ArchiveError, match=r"is no archive: it has no store\.json"):
        read_info(tmp_path)
    (store / "store.json").write_bytes(b"{")
    with pytest.raises(ArchiveError, match=r"store\.json is damaged"):
        read_info(store)


def test_a_store_without_its_log_is_told(store: Path) -> None:
    (store / "log").rmdir()
    with pytest.raises(ArchiveError, match="log is missing"):
        read_state(store)


def test_a_store_belongs_to_one_agent(store: Path) -> None:
    assert create_store(store, "web-1") == create_store(store, "web-1")
    with pytest.raises(ArchiveError, match="archive of agent web-1, not of web-2"):
        create_store(store, "web-2")


def test_entries_hold_what_the_format_says(store: Path) -> None:
    segment = write_segment(store, rows_of_text(LINES), 9)
    name = commit(store, 10, add=[segment], positions={"web": positions(1)})
    entry = msgspec.json.decode((store / "log" / name).read_bytes())
    assert name.startswith("0000000000010-")
    assert entry["version"] == 1
    assert entry["add"][0]["columns"] == {"time": "integer", "a": "integer"}
    assert entry["positions"]["web"]["files"][0]["file_id"] == 7
