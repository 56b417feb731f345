"""The folder of reports: what is in it, and what is not a way out of it. No browser is needed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from elf.dashboard.reports import REPORT_BYTES_MAX, REPORTS_MAX, ReportFolder
from elf.errors import UsageError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "secret.html").write_text("secret")
    reports = tmp_path / "reports"
    reports.mkdir()
    for age, name in enumerate(("new.html", "old 1.html")):
        (reports / name).write_text(name)
        os.utime(reports / name, (1000 - age, 1000 - age))
    (reports / "linked.html").symlink_to(tmp_path / "secret.html")
    (reports / "folder.html").mkdir()
    (reports / "folder.html" / "inner.html").write_text("inner")
    os.mkfifo(reports / "pipe.html")
    (reports / "notes.txt").write_text("notes")
    (reports / ".hidden.html").write_text("hidden")
    (reports / "<b>\x1b[31m.html").write_text("markup")
    return reports


def test_reports_are_listed_newest_first_and_nothing_else_is(folder: Path) -> None:
    assert ReportFolder(folder).names() == ["new.html", "old 1.html"]


@pytest.mark.parametrize(
    "name",
    [
        "../secret.html", "..%2fsecret.html", "/etc/passwd", "linked.html", "folder.html", "folder.html/inner.html",
        "pipe.html", "notes.txt", ".hidden.html", "<b>\x1b[31m.html", "", "new.html\x00.html", "new.html\n",
        "none.html", "a" * 300 + ".html",
    ],
)  # fmt: skip
def test_what_is_no_report_of_the_folder_is_not_read(folder: Path, name: str) -> None:
    assert ReportFolder(folder).read(name) is None


def test_reports_are_read_up_to_a_size_and_listed_up_to_a_number(folder: Path) -> None:
    reports = ReportFolder(folder)
    assert reports.read("old 1.html") == b"old 1.html"
    (folder / "large.html").write_bytes(b"x" * (REPORT_BYTES_MAX + 1))
    assert reports.read("large.html") is None
    for number in range(REPORTS_MAX + 5):
        (folder / f"{number}.html").touch()
    assert len(reports.names()) == REPORTS_MAX


def test_a_folder_that_is_none_is_one_line(folder: Path) -> None:
    with pytest.raises(UsageError, match=r"--reports .*none: no such file or directory"):
        ReportFolder(folder / "none")
    with pytest.raises(UsageError, match="not a directory"):
        ReportFolder(folder / "notes.txt")
