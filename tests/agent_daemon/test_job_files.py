"""Jobs on disk: what was written is there after any end of the process, whatever became of the end of the file."""

from __future__ import annotations

import errno
import logging
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.daemon import job_files
from agent.daemon.data_directory import DataDirectory
from agent.daemon.job_files import JobFiles
from agent.runtime.master.kept_jobs import KeptJobs
from agent.runtime.messages.job_records import DescriptorRecord, DropRecord, EndRecord, JobRecord, LinesRecord
from agent.runtime.messages.jobs import MemberEntry, Submit
from agent.runtime.messages.programs import Line
from agent.runtime.messages.versions import Version
from agent.runtime.model.epoch import JobEpoch
from overlay import Id

EVERY_BYTE = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


def begun(app: int, counter: int = 1, born_ms: int = 5, *, size: int = 0) -> DescriptorRecord:
    """The first record of a job."""
    job = Submit(Id(app), f"job-{app}", "web", {"padding": "x" * size}, bounded=False, submitted_ms=born_ms)
    members = [MemberEntry(0, "agent-0", Id(7), 0, None)]
    return DescriptorRecord(
        Id(app), JobEpoch(born_ms, counter, Id(7)), 0, Id(7), 1, 0, [0] * 6, b"", [], job, members,
        [Version(1, -1, 0, {}, "SELECT")],
    )  # fmt: skip


def later(app: int, revision: int, counter: int = 1, born_ms: int = 5) -> DescriptorRecord:
    """A revision with a further window."""
    epoch = JobEpoch(born_ms, counter, Id(7))
    results = [(revision * 1000, b'{"n":%d}' % revision)]
    return DescriptorRecord(Id(app), epoch, revision, Id(7), 1, revision * 1000, [revision] * 6, b"\1", results)


def summary(kept: KeptJobs) -> dict[int, tuple[int, int, list[int], list[str]]]:
    """Of each job: counter of its epoch, frontier, windows, and log."""
    return {
        app_id: (
            job.replica.epoch.counter,
            job.replica.frontier,
            [pane for pane, _ in job.results],
            [line.text for line in job.log.lines],
        )
        for app_id, job in kept.jobs.items()
    }


def files(folder: Path, *batches: list[JobRecord]) -> JobFiles:
    written = JobFiles(folder)
    for batch in batches:
        written.write(batch)
    return written


def newest(folder: Path) -> Path:
    return max(folder.glob("*.journal"), key=lambda path: int(path.stem))


def test_a_job_is_there_at_the_next_start(tmp_path: Path) -> None:
    with DataDirectory(tmp_path) as directory:
        assert directory.job_files().read().jobs == {}
        directory.job_files().write([begun(1), later(1, 1), later(1, 2), LinesRecord(Id(1), [Line(0, "a", "hello")])])
    with DataDirectory(tmp_path) as directory:
        again = directory.job_files()
        (job,) = again.read().jobs.values()
        assert (job.replica.job.name, job.replica.members[0].name, job.replica.versions[0].text) == (
            "job-1", "agent-0", "SELECT",
        )  # fmt: skip
        again.write([later(1, 3), later(1, 4, counter=2)])
    assert summary(JobFiles(tmp_path / "jobs").read()) == {1: (2, 4000, [1000, 2000, 3000, 4000], ["hello"])}
    assert newest(tmp_path / "jobs").stat().st_mode & 0o077 == 0, "queries and results are nobody else's business"


def test_an_ended_job_is_known_to_be_over_and_one_that_was_dropped_is_not(tmp_path: Path) -> None:
    files(tmp_path, [begun(1), begun(2), EndRecord(Id(1), JobEpoch(5, 3, Id(7))), DropRecord(Id(2))])
    kept = JobFiles(tmp_path).read()
    assert kept.jobs == {}
    assert kept.ended == {1: JobEpoch(5, 3, Id(7))}
    files(tmp_path, [begun(1), begun(2)])
    assert set(JobFiles(tmp_path).read().jobs) == {2}, "what has ended does not come back"
    files(tmp_path, [begun(1, born_ms=6)])
    assert set(JobFiles(tmp_path).read().jobs) == {1, 2}, "but another job of its name does"


def test_a_job_is_not_mixed_with_an_earlier_one_of_its_name(tmp_path: Path) -> None:
    files(tmp_path, [begun(1), later(1, 1), begun(1, born_ms=9), later(1, 2, born_ms=9)])
    (job,) = JobFiles(tmp_path).read().jobs.values()
    assert (job.replica.job.submitted_ms, [pane for pane, _ in job.results]) == (9, [2000])
    files(tmp_path, [later(1, 3, born_ms=12)])
    (job,) = JobFiles(tmp_path).read().jobs.values()
    assert job.replica.job.submitted_ms == 9, "of that one the beginning is missing"


def test_the_folder_stays_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_files, "GARBAGE_BYTES_MIN", 2000)
    written = files(tmp_path, [begun(1), begun(2)])
    for revision in range(1, 400):
        written.write([later(1, revision)])
        assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 40_000
    assert len(list(tmp_path.iterdir())) == 2
    kept = summary(JobFiles(tmp_path).read())
    assert kept[1][:2] == (1, 399_000)
    assert kept[1][2][-64:] == [pane * 1000 for pane in range(336, 400)]
    assert kept[2] == (1, 0, [], [])


def test_results_make_room_for_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_files, "LIVE_BYTES_MAX", 3000)
    monkeypatch.setattr(job_files, "RESULT_BUDGETS", (10_000, 30, 0))
    files(tmp_path, [begun(1, size=2000), *(later(1, revision) for revision in range(1, 60))])
    files(tmp_path, [])
    assert summary(JobFiles(tmp_path).read()) == {1: (1, 59_000, [57_000, 58_000, 59_000], [])}
    files(tmp_path, [begun(2, size=2000)])
    with pytest.raises(OSError, match="the descriptors of jobs take more"):
        files(tmp_path, [])
    assert set(JobFiles(tmp_path).read().jobs) == {1, 2}, "what is on disk stays"


HISTORY: list[list[JobRecord]] = [
    [begun(1), later(1, 1)],
    [LinesRecord(Id(1), [Line(0, "a", "one"), Line(1, "b", "two")]), begun(2)],
    [later(1, 2), EndRecord(Id(2), JobEpoch(5, 1, Id(7))), begun(3, size=300)],
    [later(3, 1), later(1, 3, counter=2), DropRecord(Id(3))],
]


def summaries() -> list[object]:
    """What there is after each record."""
    records = [record for batch in HISTORY for record in batch]
    kept = [KeptJobs(records[:count]) for count in range(len(records) + 1)]
    return [(summary(one), one.ended) for one in kept]


def read(folder: Path) -> object:
    kept = JobFiles(folder).read()
    return summary(kept), kept.ended


@EVERY_BYTE
@given(st.data())
def test_any_beginning_of_the_file_is_read(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    folder = tmp_path_factory.mktemp("jobs")
    files(folder, *HISTORY)
    content = newest(folder).read_bytes()
    cut = data.draw(st.integers(0, len(content)))
    newest(folder).write_bytes(content[:cut] + data.draw(st.sampled_from([b"", bytes(50)])))
    found = read(folder)
    assert found in summaries()
    files(folder, [begun(9)])
    jobs, _ = read(folder)  # type: ignore[misc]
    assert jobs.pop(9) == (1, 0, [], []), "and the agent goes on from there"
    assert jobs == found[0]  # type: ignore[index]


@EVERY_BYTE
@given(st.data())
def test_a_changed_byte_hides_what_comes_after_it_and_no_more(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("jobs")
    files(folder, *HISTORY)
    content = bytearray(newest(folder).read_bytes())
    at = data.draw(st.integers(0, len(content) - 1))
    content[at] ^= data.draw(st.integers(1, 255))
    newest(folder).write_bytes(content)
    whole = 0
    offset = len(job_files.framed(bytes(8)))
    for record in (record for batch in HISTORY for record in batch):
        offset += len(job_files.framed(job_files.RECORDS.encode(record)))
        whole += offset <= at
    assert read(folder) == summaries()[whole]


@EVERY_BYTE
@given(st.binary(max_size=200), st.booleans())
def test_no_file_is_too_strange(tmp_path_factory: pytest.TempPathFactory, content: bytes, framed: bool) -> None:
    folder = tmp_path_factory.mktemp("jobs")
    start = job_files.compacted(KeptJobs([begun(1)]))
    (folder / "7.journal").write_bytes(start + job_files.framed(content) if framed else content)
    read(folder)
    files(folder, [begun(2)])
    assert 2 in JobFiles(folder).read().jobs


def test_a_damaged_file_is_set_aside_and_said_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    files(tmp_path, *HISTORY)
    content = bytearray(newest(tmp_path).read_bytes())
    content[len(content) // 2] ^= 1
    newest(tmp_path).write_bytes(content)
    with caplog.at_level(logging.WARNING):
        files(tmp_path, [begun(9)])
    assert "jobs are damaged" in caplog.text
    assert (tmp_path / "damaged").read_bytes() == content
    assert {1, 9} <= set(JobFiles(tmp_path).read().jobs)


def test_the_generation_before_counts_where_the_beginning_of_the_next_is_damaged(tmp_path: Path) -> None:
    files(tmp_path, [begun(1), begun(2), DropRecord(Id(2))])
    files(tmp_path, [later(1, 1)])
    content = bytearray(newest(tmp_path).read_bytes())
    content[30] ^= 1
    newest(tmp_path).write_bytes(content)
    assert set(JobFiles(tmp_path).read().jobs) == {1}


def test_after_a_full_disk_there_is_what_was_there_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = files(tmp_path, [begun(1), later(1, 1)])

    def tear(_: int) -> None:
        os.truncate(newest(tmp_path), newest(tmp_path).stat().st_size - 5)
        raise OSError(errno.ENOSPC, "no space left on device")

    with monkeypatch.context() as full:
        full.setattr(os, "fdatasync", tear)
        with pytest.raises(OSError, match="no space left"):
            written.write([later(1, 2)])
    assert summary(JobFiles(tmp_path).read()) == {1: (1, 1000, [1000], [])}
    written.write([later(1, 3)])
    assert summary(JobFiles(tmp_path).read()) == {1: (1, 3000, [1000, 3000], [])}


def test_a_record_that_is_too_large_to_be_read_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_files, "RECORD_BYTES_MAX", 1000)
    assert files(tmp_path).write([begun(1), begun(2, size=1000), begun(3)]) == 1
    assert set(JobFiles(tmp_path).read().jobs) == {1, 3}


def test_a_folder_that_cannot_be_read_is_no_reason_not_to_start(tmp_path: Path) -> None:
    (tmp_path / "jobs").write_text("a file")
    assert JobFiles(tmp_path / "jobs").read().jobs == {}
    (tmp_path / "7.journal").mkdir()
    assert JobFiles(tmp_path).read().jobs == {}
