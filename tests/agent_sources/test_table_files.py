"""Look-up tables: which files are taken, what becomes of them, and that agents have them as they are now."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

import query
from agent.configuration.config import TableConfig
from agent.feeding import table_files
from agent.feeding.table_files import TableFiles
from agent.feeding.table_reading import read_table, table_schema
from agent.parsing import SourceColumn
from agent.runtime.function.join import JoinTable
from agent.runtime.upstream.tables import FileTable, FileTables
from agent.sources import SourceError

JOINED = query.analyze(
    query.parse("SELECT p.title FROM web LEFT JOIN table('products') AS p ON web.id = p.id"),
    {"web": query.Schema({}, open=True)},
)


def lookup() -> JoinTable:
    assert JOINED.join is not None
    return JoinTable(JOINED, JOINED.join)


def columns(*types: str) -> list[SourceColumn]:
    return [SourceColumn(name, (name,), type_) for name, type_ in zip(("id", "title"), types, strict=False)]


def rows(path: Path, *types: str) -> list[tuple[object, ...]]:
    frames = read_table(str(path)).frames(columns(*types))
    return [row for frame in frames for row in frame.select("@time", "id", "title").iter_rows()]


def test_json_lines_keep_their_types(tmp_path: Path) -> None:
    path = tmp_path / "products.json"
    path.write_text('{"id": 1, "title": "a"}\n{"id": "1", "title": null}\n')
    assert sorted(rows(path, "any", "any"), key=str) == [(0, 1, "a"), (1, "1", None)]


def test_a_column_of_csv_that_holds_numbers_alone_is_one_of_numbers(tmp_path: Path) -> None:
    path = tmp_path / "products.csv.gz"
    path.write_bytes(gzip.compress(b"id,title\n1,7\n2.5,x\n,\n"))
    assert {row[1:] for row in rows(path, "any", "any")} == {(1, "7"), (2.5, "x"), (None, None)}
    assert rows(path, "string", "any")[0] == (0, "1", "7"), "unless it is compared with texts"
    assert table_schema(read_table(str(path))) == query.Schema({"id": "any", "title": "any"}, open=False)


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("a.json", '{"id": 1}\n{"id": \n', "1 of its lines are no rows"),
        ("a.csv", 'id,title\n1,"a\n', "1 of its lines are no rows"),
        ("a.txt", "nothing of the kind\n" * 3, "cannot tell the format"),
        ("a.log", '1.2.3.4 - - [01/May/2024:12:00:00 +0000] "GET / HTTP/1.1" 200 5\n', "holds log lines"),
    ],
)
def test_a_file_that_is_no_table_is_refused(tmp_path: Path, name: str, content: str, why: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(SourceError, match=why):
        read_table(str(tmp_path / name))


def test_a_table_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.csv"
    path.write_text("id,title\n" + "1,a\n" * 20)
    monkeypatch.setattr(query, "TABLE_ROWS_MAX", 19)
    with pytest.raises(SourceError, match="has 20 rows: a table may have 19"):
        read_table(str(path))
    monkeypatch.setattr(query, "TABLE_BYTES_MAX", 50)
    with pytest.raises(SourceError, match="is larger than"):
        read_table(str(path))
    with pytest.raises(SourceError, match="no such file"):
        read_table(str(tmp_path / "none.csv"))


def told(tables: FileTables, one: JoinTable) -> tuple[bool, bool]:
    tables.update([one])
    return one.is_settled, one.lacks


def test_jobs_are_given_what_there_is(tmp_path: Path) -> None:
    path = tmp_path / "products.csv"
    path.write_text("id,title\n1,a\n")
    complaints: list[tuple[str, str]] = []
    tables, one = FileTables(["products"], lambda *about: complaints.append(about)), lookup()
    assert told(tables, one) == (False, True), "it is still being read"
    tables.hold("products", None)
    assert told(tables, one) == (True, True), "its file cannot be used"
    tables.hold("products", read_table(str(path)))
    assert told(tables, one) == (True, False)
    tables.hold("products", None)
    assert told(tables, one) == (True, True), "the rows before stay, but they are not what they should be"
    assert told(tables, lookup()) == (True, True)
    assert told(FileTables([], print), lookup()) == (True, True), "an agent that has no such table"
    assert complaints == []


@pytest.mark.trio
async def test_files_are_read_again_when_they_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, other = tmp_path / "products.csv", tmp_path / "new.csv"
    path.write_text("id,title\n1,a\n")
    reads: list[FileTable] = []

    def read(file: str, kind: str) -> FileTable:
        reads.append(read_table(file, kind))
        return reads[-1]

    monkeypatch.setattr(table_files, "read_table", read)
    tables, one = FileTables(["products"], lambda *_: None), lookup()
    files = TableFiles(tables, [TableConfig("products", str(path), "auto")], pump=lambda: None)
    for _ in range(3):
        await files.look()
    assert (len(reads), told(tables, one)) == (1, (True, False)), "once, as long as nothing changes"
    other.write_text("id,title\n1,b\n2,c\n")
    other.rename(path)
    await files.look()
    assert len(reads) == 1, "it may still be written"
    await files.look()
    assert (len(reads), told(tables, one)) == (2, (True, False))
    assert [frame.height for frame in reads[-1].frames(columns("any", "any"))] == [2]
    path.unlink()
    for _ in range(3):
        await files.look()
    assert (len(reads), told(tables, one)) == (2, (True, True)), "the rows before stay"
