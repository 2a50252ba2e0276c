# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from ci_doctor.correctness.collected.formats import SampleFormat
from ci_doctor.correctness.collected.sources import (
    NoEvidenceError,
    SourcePosition,
    check,
    content,
    find,
    records,
    sources,
)
from ci_doctor.correctness.settings import Arm
from ci_doctor.errors import InfraError, UsageError
from tests.unit.correctness.collected.sample_files import responses, source, write


def test_a_directory_stands_for_its_files_of_samples(tmp_path: Path) -> None:
    for name in ("2.jsonl", "1.txt", "notes.md"):
        (tmp_path / name).write_text("x")

    assert [path.name for path in find(str(tmp_path))] == ["1.txt", "2.jsonl"]


def test_a_report_directory_stands_for_its_samples_alone(tmp_path: Path) -> None:
    for name in ("samples.jsonl", "events.jsonl"):
        (tmp_path / name).write_text("x")

    assert [path.name for path in find(str(tmp_path))] == ["samples.jsonl"]


@pytest.mark.parametrize("path", ["-", "gone", "/dev/null"])
def test_what_cannot_be_read_twice_is_an_error_of_usage(tmp_path: Path, path: str) -> None:
    with pytest.raises(UsageError):
        find(path if path != "gone" else str(tmp_path / path))


def test_the_format_is_that_of_the_first_line_that_shows_one(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", ["broken", *responses("x")])

    assert [each.form for each in sources(Arm.BASELINE, str(path), None)] == [
        SampleFormat.RESPONSES
    ]


@pytest.mark.parametrize(
    ("text", "reason"), [("\n\n", "is empty"), ("what\n", "in any known form")]
)
def test_a_file_without_samples_is_no_evidence(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "a.txt").write_text(text)

    with pytest.raises(NoEvidenceError, match=reason):
        sources(Arm.BASELINE, str(tmp_path / "a.txt"), None)


def test_records_are_found_again_by_their_positions(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", responses("x y"))
    found = list(records(source(Arm.BASELINE, path)))

    assert [number for _, _, _, number in found] == [1, 2]
    for _, line, offset, number in found:
        place = SourcePosition(
            source=source(Arm.BASELINE, path), offset=offset, length=len(line), line=number
        )
        assert content(place) == line


def test_a_file_that_became_shorter_is_infrastructure(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    position = SourcePosition(
        source=source(Arm.BASELINE, tmp_path / "a"), offset=0, length=9, line=1
    )

    with pytest.raises(InfraError, match="became shorter"):
        content(position)


def test_formats_that_hold_other_things_do_not_compare(tmp_path: Path) -> None:
    a = source(Arm.BASELINE, write(tmp_path / "a", responses("x")))
    b = source(Arm.CANDIDATE, write(tmp_path / "b", responses("x")), SampleFormat.ROWS)

    with pytest.raises(UsageError, match="do not compare"):
        check([a], [b])
