"""The jobs that come with ELF are found by their names, and can be submitted."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.runtime.model.bundle import SOURCE_BYTES_MAX
from elf.errors import UsageError
from elf.signing.shipped import FOLDER, JOBS
from elf.signing.submission import JobFileError, read_job


@pytest.mark.parametrize("name", JOBS)
def test_a_shipped_job_goes_by_the_name_of_its_file_and_of_its_app(name: str) -> None:
    app = name.replace("_", "-")
    job = read_job(Path(name))
    assert job == read_job(Path(app)) == read_job(FOLDER / f"{name}.py")
    assert job.about.app == app


def test_all_of_them_are_named() -> None:
    assert {path.stem for path in FOLDER.glob("*.py")} - {"__init__"} == set(JOBS)


def test_a_file_of_ones_own_goes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("kmeans").write_text("import elf\n\nclass Own(elf.Job):\n    query = 'SELECT COUNT(*) FROM web'\n")
    assert read_job(Path("kmeans")).about.app == "own"


def test_a_name_that_is_none_is_told_which_there_are() -> None:
    with pytest.raises(
        UsageError, match=r"^kmean: no such file or directory; jobs that come with ELF are ctr, kmeans, lending, micro_"
    ):
        read_job(Path("kmean"))
    with pytest.raises(UsageError, match=r"^jobs/kmeans\.py: no such file or directory$"):
        read_job(Path("jobs/kmeans.py"))


@pytest.mark.parametrize("more", [0, 1, 9 * SOURCE_BYTES_MAX])
def test_the_source_of_a_job_is_bounded(tmp_path: Path, more: int) -> None:
    path = tmp_path / "own.py"
    code = "import elf\n\nclass Own(elf.Job):\n    query = 'SELECT COUNT(*) FROM web'\n#"
    path.write_text(code.ljust(SOURCE_BYTES_MAX + more, "x"))
    if not more:
        assert read_job(path).about.app == "own"
    else:
        with pytest.raises(JobFileError, match=f"has {SOURCE_BYTES_MAX + more:,} bytes, a job's code may have 131,072"):
            read_job(path)
