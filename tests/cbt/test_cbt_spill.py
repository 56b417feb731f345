"""A tree with a memory limit keeps to it by means of the disk, and loses no row when the disk fails."""

import gc
import os
import stat
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from full_disk import full_disk
from seeds import seeds

from cbt import Aggregate, CompressedBufferTree, DiskQuota, Key, SpillError

LIMIT_BYTES = 40_000


def limited(
    directory: Path, limit_bytes: int = LIMIT_BYTES, quota: DiskQuota | None = None, **limits: int
) -> CompressedBufferTree:
    keys, aggregates = [Key("k", "integer")], [Aggregate("n", "count", None, "any")]
    return CompressedBufferTree(
        keys,
        aggregates,
        memory_limit_bytes=limit_bytes,
        spill_directory=directory,
        spill_quota=quota,
        **{"leaf_rows": 256, **limits},
    )


def keys(start: int, stop: int, pane: int = 0) -> pl.DataFrame:
    return pl.DataFrame({"pane": pl.repeat(pane, stop - start, dtype=pl.Int64, eager=True), "k": range(start, stop)})


def counts(tree: CompressedBufferTree, pane: int | None = None) -> dict[object, int]:
    rows = [row for frame in tree.flush(pane) for row in frame.select("k", "n.n").rows()]
    assert len(rows) == len(dict(rows)), "every key appears once"
    return dict(rows)


def files(directory: Path) -> list[Path]:
    return sorted(path for path in directory.rglob("*") if path.is_file())


@pytest.mark.slow
@pytest.mark.parametrize("fanout", seeds(4, slow=[256]))
def test_memory_stays_within_the_limit(tmp_path: Path, fanout: int) -> None:
    tree = limited(tmp_path, fanout=fanout, buffer_rows=4096)
    model: Counter[int] = Counter()
    for start in range(0, 8000, 1000):
        tree.insert(keys(start, start + 2000))
        model.update(range(start, start + 2000))
        assert tree.memory_bytes <= LIMIT_BYTES
    tree.check()
    statistics = tree.statistics()
    assert statistics.spilled_leaves > 10
    assert statistics.disk_bytes == sum(path.stat().st_size for path in files(tmp_path)) > LIMIT_BYTES
    for _ in range(2):
        assert counts(tree) == model
        assert tree.memory_bytes <= LIMIT_BYTES
    tree.insert(keys(0, 5000))
    model.update(range(5000))
    assert counts(tree) == model


def test_without_need_nothing_goes_to_disk(tmp_path: Path) -> None:
    tree = limited(tmp_path, 2**24)
    tree.insert(keys(0, 10_000))
    assert len(counts(tree)) == 10_000
    assert (files(tmp_path), tree.statistics().spilled_leaves) == ([], 0)


def test_panes_that_nobody_inserts_to_go_first(tmp_path: Path) -> None:
    tree = limited(tmp_path, leaf_rows=1024)
    for pane in range(6):
        tree.insert(keys(0, 1000, pane))
    spilled = tree.statistics().spilled_leaves
    assert 3 <= spilled < 6
    before = files(tmp_path)
    for _ in range(20):
        tree.insert(keys(0, 1000, 5))
    assert files(tmp_path) == before, "what is warm stays in memory"
    assert counts(tree, 0) == dict.fromkeys(range(1000), 1)
    assert counts(tree, 5) == dict.fromkeys(range(1000), 21)


def test_a_leaf_on_disk_is_not_read_for_each_insert(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads = Counter[str]()
    read_bytes = Path.open

    def counted(path: Path, mode: str = "r") -> object:
        reads[path.name] += 1
        return read_bytes(path, mode)

    tree = limited(tmp_path, 1, leaf_rows=2**15)
    tree.insert(keys(0, 20_000))
    monkeypatch.setattr(Path, "open", counted)
    for start in range(20_000, 24_000, 200):
        tree.insert(keys(start, start + 200))
    assert reads.total() <= 60, "once for all that came, file by file"
    assert tree.memory_bytes == 0
    assert len(counts(tree)) == 24_000


def test_huge_keys(tmp_path: Path) -> None:
    aggregates = [Aggregate("n", "count", None, "any")]
    tree = CompressedBufferTree(
        [Key("k", "string")], aggregates, memory_limit_bytes=2**21, spill_directory=tmp_path, leaf_rows=4
    )
    texts = [os.urandom(2**19).hex() for _ in range(6)]
    for text in [*texts, *texts[:3]]:
        tree.insert(pl.DataFrame({"pane": [0], "k": [text]}))
        assert tree.memory_bytes <= 2**21
    assert counts(tree) == {text: 2 if text in texts[:3] else 1 for text in texts}
    other = CompressedBufferTree([Key("k", "string")], aggregates)
    other.restore(tree.snapshot())
    assert counts(other) == counts(tree)


def test_files_are_the_owners_alone(tmp_path: Path) -> None:
    trees = [limited(tmp_path), limited(tmp_path)]
    for tree in trees:
        tree.insert(keys(0, 10_000))
    assert len(list(tmp_path.iterdir())) == 2
    for path in tmp_path.rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)


def test_empty_removes_files(tmp_path: Path) -> None:
    tree = limited(tmp_path)
    for pane in range(4):
        tree.insert(keys(0, 10_000, pane))
    for pane in range(4):
        before = len(files(tmp_path))
        tree.empty(pane)
        assert len(files(tmp_path)) < before
    assert files(tmp_path) == []
    tree.insert(keys(0, 10_000))
    tree.empty()
    assert (files(tmp_path), tree.statistics().disk_bytes) == ([], 0)


def test_close_removes_the_directory_and_the_tree_can_start_again(tmp_path: Path) -> None:
    tree = limited(tmp_path)
    tree.insert(keys(0, 10_000))
    tree.close()
    assert (list(tmp_path.iterdir()), counts(tree)) == ([], {})
    tree.insert(keys(0, 10_000))
    assert counts(tree) == dict.fromkeys(range(10_000), 1)
    tree.close()
    tree.close()
    assert list(tmp_path.iterdir()) == []


def test_a_tree_that_is_collected_leaves_nothing_behind(tmp_path: Path) -> None:
    tree = limited(tmp_path)
    tree.insert(keys(0, 10_000))
    next(tree.flush())
    assert files(tmp_path)
    del tree
    gc.collect()
    assert list(tmp_path.iterdir()) == []


def test_restore_replaces_files(tmp_path: Path) -> None:
    tree = limited(tmp_path)
    tree.insert(keys(0, 10_000))
    snapshot = tree.snapshot()
    tree.insert(keys(0, 20_000))
    tree.restore(snapshot)
    assert counts(tree) == dict.fromkeys(range(10_000), 1)
    assert tree.memory_bytes <= LIMIT_BYTES
    assert tree.statistics().disk_bytes == sum(path.stat().st_size for path in files(tmp_path))
    with full_disk(), pytest.raises(SpillError, match="the tree is as it was"):
        tree.restore(snapshot)
    assert counts(tree) == dict.fromkeys(range(10_000), 1)


@pytest.mark.parametrize("limits", [{"limit_bytes": 0}, {"limit_bytes": -5}])
def test_wrong_limits(tmp_path: Path, limits: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        limited(tmp_path, **limits)


def test_a_limit_and_a_directory_come_together(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="needs a spill_directory"):
        CompressedBufferTree([], [], memory_limit_bytes=1)
    with pytest.raises(ValueError, match="needs a spill_directory"):
        CompressedBufferTree([], [], spill_directory=tmp_path)


@pytest.mark.parametrize("kind", ["missing", "a file", "forbidden"])
def test_a_directory_that_cannot_be_used_is_refused_at_once(tmp_path: Path, kind: str) -> None:
    place = tmp_path / "place"
    if kind == "a file":
        place.touch()
    if kind == "forbidden":
        if os.geteuid() == 0:
            pytest.skip("nothing is forbidden to root")
        place.mkdir(mode=0o500)
    with pytest.raises(SpillError, match=r"cannot make a directory in .*place: .*; see that it exists"):
        limited(place)


def test_a_full_disk_costs_no_row(tmp_path: Path) -> None:
    tree = limited(tmp_path)
    model: Counter[int] = Counter()

    def insert(start: int, stop: int) -> None:
        model.update(range(start, stop))
        tree.insert(keys(start, stop))

    insert(0, 10_000)
    before = files(tmp_path)
    with full_disk():
        for start in (0, 10_000, 20_000):
            message = r"cannot write .*elf-cbt-.*: File too large; make room.*the rows of this insert are in the tree"
            with pytest.raises(SpillError, match=message):
                insert(start, start + 10_000)
            tree.check()
        assert counts(tree) == model, "a flush needs no room"
        assert set(files(tmp_path)) <= set(before), "no broken files are left"
    insert(5000, 15_000)
    assert tree.memory_bytes <= LIMIT_BYTES
    tree.check()
    assert counts(tree) == model


@pytest.mark.parametrize("times", [1, 4])
def test_trees_share_a_quota_of_the_disk(tmp_path: Path, times: int) -> None:
    unbounded = limited(tmp_path)
    unbounded.insert(keys(0, 10_000))
    needed = unbounded.statistics().disk_bytes
    unbounded.close()
    del unbounded

    quota = DiskQuota(needed)
    first, second = limited(tmp_path, quota=quota), limited(tmp_path, quota=quota)
    first.insert(keys(0, 10_000))
    assert quota.used_bytes == needed == sum(path.stat().st_size for path in files(tmp_path))
    with pytest.raises(SpillError, match=f"cannot write .* {needed:,} bytes are in use; make room"):
        second.insert(keys(0, 10_000 * times))
    assert counts(second) == dict.fromkeys(range(10_000 * times), 1), "no row is lost"
    assert sum(path.stat().st_size for path in files(tmp_path)) == quota.used_bytes <= needed
    first.close()
    second.close()
    del first, second
    gc.collect()
    assert quota.used_bytes == 0
    third = limited(tmp_path, quota=quota)
    third.insert(keys(0, 10_000))
    assert quota.used_bytes == needed, "the room of trees that are gone is free"


def test_a_small_file_system_that_is_full(tmp_path: Path) -> None:
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(tmp_path)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("only root may mount a small file system")
    try:
        tree = limited(tmp_path)
        with pytest.raises(SpillError, match="No space left on device"):
            tree.insert(keys(0, 40_000))
        assert counts(tree) == dict.fromkeys(range(40_000), 1)
        tree.empty()
        tree.insert(keys(0, 1500))
        assert tree.memory_bytes <= LIMIT_BYTES
        tree.close()
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


def test_a_directory_that_went_away_is_made_again(tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    tree = limited(place, 1)
    (own,) = place.iterdir()
    own.rmdir()
    place.rmdir()
    with pytest.raises(SpillError, match=r"cannot make a directory in .*place"):
        tree.insert(keys(0, 100))
    place.mkdir()
    tree.insert(keys(50, 150))
    assert tree.memory_bytes == 0
    assert counts(tree) == {k: 2 if 50 <= k < 100 else 1 for k in range(150)}


def flip(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))


DAMAGES: dict[str, Callable[[Path], object]] = {
    "cannot read .*: No such file": Path.unlink,
    "is not what was written to it": flip,
    "is not what was written": lambda path: path.write_bytes(path.read_bytes() + b"more"),
    "is not what was": lambda path: path.write_bytes(b""),
}


@pytest.mark.parametrize("match", DAMAGES)
def test_a_damaged_file_is_named_and_everything_else_stays(tmp_path: Path, match: str) -> None:
    tree = limited(tmp_path, 1, leaf_rows=2**15)
    tree.insert(keys(0, 10_000, pane=0))
    tree.insert(keys(0, 100, pane=1))
    victim = max(files(tmp_path), key=lambda path: path.stat().st_size)
    saved = victim.read_bytes()
    DAMAGES[match](victim)
    for _ in range(2):
        with pytest.raises(SpillError, match=match) as raised:
            counts(tree)
        assert str(victim) in str(raised.value)
        assert "bring the" in str(raised.value)
    with pytest.raises(SpillError, match=match):
        tree.snapshot()
    assert counts(tree, 1) == dict.fromkeys(range(100), 1)
    with pytest.raises(SpillError, match=match + ".*the rows of this insert are in the tree"):
        tree.insert(keys(0, 10_000, pane=0))
    victim.write_bytes(saved)
    assert counts(tree, 0) == dict.fromkeys(range(10_000), 2)
    tree.empty(0)
    assert counts(tree) == dict.fromkeys(range(100), 1)


def test_a_pane_whose_file_is_lost_can_be_given_up(tmp_path: Path) -> None:
    tree = limited(tmp_path, 1)
    tree.insert(keys(0, 100, pane=0))
    tree.insert(keys(0, 100, pane=1))
    files(tmp_path)[0].unlink()
    tree.empty(0)
    assert counts(tree) == dict.fromkeys(range(100), 1)
