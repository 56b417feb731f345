"""Files of choices: what is appended is there for the next process, and files of jobs that are over go."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.feeding import choice_files
from agent.feeding.choice_files import ChoiceFiles
from agent.runtime.model.epoch import JobTerm
from overlay import Id

ONE, OTHER = JobTerm(Id(1), 7), JobTerm(Id(2), 7)


@pytest.fixture
def warned() -> list[str]:
    return []


def files(folder: Path, warned: list[str]) -> ChoiceFiles:
    return ChoiceFiles(folder / "choices", lambda what, why: warned.append(f"{what}: {why}"))


def test_what_is_appended_is_there_for_the_next_process_and_may_be_replaced(tmp_path, warned):
    assert files(tmp_path, warned).of(ONE).read() == b""
    first = files(tmp_path, warned).of(ONE)
    assert first.append(b"one")
    assert first.append(b"two")
    again = files(tmp_path, warned).of(ONE)
    assert again.read() == b"onetwo"
    assert again.replace(b"two")
    assert files(tmp_path, warned).of(ONE).read() == b"two"
    assert files(tmp_path, warned).of(JobTerm(ONE.app_id, 8)).read() == b"", "another life of the job has its own"
    assert not warned


def test_a_file_that_is_full_takes_no_more_until_it_is_replaced(tmp_path, warned, monkeypatch):
    monkeypatch.setattr(choice_files, "BYTES_MAX", 5)
    file = files(tmp_path, warned).of(ONE)
    assert file.append(b"12345")
    assert not file.append(b"6")
    assert file.replace(b"1")
    assert file.append(b"2")


def test_files_of_jobs_that_are_over_are_removed(tmp_path, warned):
    found = files(tmp_path, warned)
    for term in (ONE, OTHER):
        found.of(term).append(b"x")
    found.retain({ONE})
    assert found.of(ONE).read() == b"x"
    assert found.of(OTHER).read() == b""


def test_a_folder_that_cannot_be_made_is_told_and_nothing_is_kept(tmp_path, warned):
    (tmp_path / "choices").write_text("no folder")
    file = files(tmp_path, warned).of(ONE)
    assert file.read() == b""
    assert not file.append(b"x")
    assert warned
