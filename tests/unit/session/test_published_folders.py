# SPDX-License-Identifier: Apache-2.0
"""Which directories a job has published before."""

from pathlib import Path

import pytest

from ci_doctor.session.report_directory import published_elsewhere


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CI_DOCTOR_REPORT_DIR", str(tmp_path))
    return tmp_path


def test_later_calls_of_a_job_know_what_earlier_ones_published(root: Path) -> None:
    one, two = root / "one", root / "two"

    assert published_elsewhere("j", [one]) == []
    assert published_elsewhere("j", [two]) == [one]
    assert published_elsewhere("j", [one, two]) == []
    assert published_elsewhere("j", []) == [one, two]


def test_another_job_in_the_same_directory_knows_nothing_of_it(root: Path) -> None:
    published_elsewhere("j", [root / "one"])

    assert published_elsewhere("k", []) == []


@pytest.mark.parametrize("text", ["", "[1]", '{"job": "j"}', '{"job": "j", "folders": {}}'])
def test_what_is_no_list_of_folders_names_none(text: str, root: Path) -> None:
    (root / ".folders.json").write_text(text)

    assert published_elsewhere("j", [root / "one"]) == []


def test_without_a_report_directory_nothing_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CI_DOCTOR_REPORT_DIR", raising=False)

    assert published_elsewhere("j", [tmp_path]) == []
    assert published_elsewhere("j", []) == []


def test_a_directory_that_cannot_be_written_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("CI_DOCTOR_REPORT_DIR", str(tmp_path / "file" / "below"))

    assert published_elsewhere("j", [tmp_path]) == []
