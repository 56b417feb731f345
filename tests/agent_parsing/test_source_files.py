"""Files, pipes and compressed streams as sources."""

import gzip
import io
import os
from pathlib import Path

import pytest
import zstandard

from agent.sources import SourceError, SourceFile, read_blocks

LINES = b"".join(b"line %d of a log that is not all too short\n" % number for number in range(20_000))


def content(source: SourceFile) -> bytes:
    return b"".join(block.data for block in source.blocks())


def good_part(path: Path) -> tuple[bytes, str]:
    """What a damaged file yields before its error, and the error."""
    data = b""
    with pytest.raises(SourceError) as caught:  # noqa: PT012 (the blocks before the error are the point)
        for block in read_blocks(str(path)):
            data += block.data
    return data, str(caught.value)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "access.log"


@pytest.mark.parametrize(
    "data",
    [
        LINES,
        gzip.compress(LINES),
        gzip.compress(LINES[:1000]) + gzip.compress(LINES[1000:]) + b"\0" * 512,
        zstandard.ZstdCompressor().compress(LINES),
        zstandard.ZstdCompressor().compress(LINES[:77]) + zstandard.ZstdCompressor().compress(LINES[77:]),
    ],
    ids=["plain", "gzip", "gzip members", "zstd", "zstd frames"],
)
@pytest.mark.parametrize("piped", [False, True])
def test_content_is_recognised_by_its_first_bytes(log: Path, data: bytes, piped: bool) -> None:
    log.write_bytes(data)
    source = SourceFile("-", stdin=io.BytesIO(data)) if piped else SourceFile(str(log))
    head = source.head(1000)
    assert LINES.startswith(head)
    assert 900 < len(head) <= 1000
    assert content(source) == LINES
    assert source.progress.bytes_read == len(data)
    assert source.bytes_total() == (None if piped else len(data))


def test_pieces_of_a_slow_pipe_are_put_together() -> None:
    reading, writing = os.pipe()
    os.write(writing, gzip.compress(LINES[:430])[:1])
    os.write(writing, gzip.compress(LINES[:430])[1:])
    os.close(writing)
    source = SourceFile(f"/dev/fd/{reading}")
    assert source.bytes_total() is None
    assert source.head() == LINES[:430]
    assert content(source) == LINES[:430]
    os.close(reading)


def test_an_empty_file_has_no_blocks(log: Path, tmp_path: Path) -> None:
    log.write_bytes(b"")
    compressed = tmp_path / "empty.log.gz"
    compressed.write_bytes(b"")
    for path in (log, compressed):
        assert SourceFile(str(path)).head() == b""
        assert list(read_blocks(str(path))) == []
    assert list(read_blocks("-", stdin=io.BytesIO())) == []


def test_a_last_line_without_newline_is_a_line(log: Path) -> None:
    log.write_bytes(b"one\r\ntwo")
    assert [block.data for block in read_blocks(str(log))] == [b"one\r\ntwo"]


def test_what_cannot_be_opened_is_told_in_one_line(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing.log")
    for path, words in [
        (missing, f"{missing}: no such file or directory"),
        (str(tmp_path), f"{tmp_path}: is a directory"),
        ("a\0b", "'a\\x00b': no such file"),
        ("a\nb", "'a\\nb': no such file"),
        ("\udcff", "'\\udcff': no such file"),
        ("-", "standard input: "),
    ]:
        for attempt in (lambda path=path: SourceFile(path).head(), lambda path=path: list(read_blocks(path))):
            with pytest.raises(SourceError) as caught:
                attempt()
            assert str(caught.value).startswith(words)
            assert "\n" not in str(caught.value)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_an_unreadable_file_is_told_in_one_line(log: Path) -> None:
    log.write_bytes(LINES)
    log.chmod(0)
    with pytest.raises(SourceError, match="permission denied"):
        SourceFile(str(log)).head()


@pytest.mark.fuzz
@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_a_truncated_file_yields_its_good_part(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"cut.log{suffix}"
    whole = gzip.compress(LINES) if suffix == ".gz" else zstandard.ZstdCompressor().compress(LINES)
    for length in (len(whole) // 2, len(whole) - 1, 12):
        path.write_bytes(whole[:length])
        data, error = good_part(path)
        assert LINES.startswith(data)
        assert data.endswith(b"\n") or not data
        assert error.startswith(f"{path}: the ")
        assert "data ends in the middle: only " in error
        assert int(error.split("only ")[1].split()[0]) >= len(data)
    path.write_bytes(whole[: len(whole) - 1])
    assert len(good_part(path)[0]) > len(LINES) // 2


@pytest.mark.fuzz
def test_a_corrupt_file_yields_what_comes_before_the_damage(tmp_path: Path) -> None:
    path = tmp_path / "bad.log.gz"
    whole = bytearray(gzip.compress(LINES))
    whole[len(whole) // 2 :] = b"\xff" * 2000
    path.write_bytes(whole)
    data, error = good_part(path)
    assert len(data) > len(LINES) // 4
    assert LINES.startswith(data[: len(LINES) // 4])  # until it is noticed, damage may look like data
    assert error.startswith(f"{path}: the gzip data ")
    path.write_bytes(gzip.compress(LINES)[:-8] + b"\0" * 8)
    data, error = good_part(path)
    assert data == LINES
    assert error == f"{path}: the gzip data is corrupt: only {len(LINES)} bytes of content could be read"


@pytest.mark.parametrize(("suffix", "kind"), [(".gz", "gzip"), (".zst", "zstd"), (".GZ", "gzip")])
def test_a_name_that_lies_is_told(tmp_path: Path, suffix: str, kind: str) -> None:
    path = tmp_path / f"plain.log{suffix}"
    path.write_bytes(LINES)
    assert good_part(path) == (
        b"",
        f"{path}: is named {suffix.lower()} but holds no {kind} data: 0 bytes of content could be read",
    )


@pytest.mark.fuzz
@pytest.mark.parametrize("kind", ["gzip", "zstd"])
def test_a_bomb_is_read_in_bounded_pieces(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "bomb"
    zeros = bytes(1 << 26)
    path.write_bytes(gzip.compress(zeros) if kind == "gzip" else zstandard.ZstdCompressor().compress(zeros))
    (block,) = read_blocks(str(path))
    assert (block.data, block.overlong) == (b"", 1)


def test_the_head_skips_overlong_lines(log: Path) -> None:
    log.write_bytes(b"x" * 3_000_000 + b"\nshort\n")
    assert SourceFile(str(log)).head() == b"short\n"
