# SPDX-License-Identifier: Apache-2.0
import gzip
from pathlib import Path

import pytest

from ci_doctor.correctness.archive.archive import Archive
from tests.unit.correctness.archived import IDENTITY, IDS, made


def test_an_output_without_its_secret_is_kept_as_it_was_written(
    archive: Archive, tmp_path: Path
) -> None:
    result, lines = made(
        tmp_path / "samples.jsonl", ("a", "sesame-open-1", "c"), secrets=["sesame-open-1"]
    )
    path = archive.keep(IDENTITY, result, lines, build="b")

    assert b"sesame" not in gzip.decompress(path.read_bytes())
    assert archive.find(IDENTITY, IDS, 2).starts[0].answers == result.start.answers


def test_the_samples_of_other_starts_are_passed_over(archive: Archive, tmp_path: Path) -> None:
    first, lines = made(tmp_path / "one.jsonl")
    second, more = made(tmp_path / "two.jsonl", ("x", "y", "z"), number=2)

    archive.keep(IDENTITY, second, [*lines, *more], build="b")

    (start,) = archive.find(IDENTITY, IDS, 2).starts
    assert start.answers == second.start.answers != first.start.answers


def test_a_start_whose_samples_are_not_all_there_is_not_kept(
    archive: Archive, tmp_path: Path
) -> None:
    result, lines = made(tmp_path / "samples.jsonl")

    with pytest.raises(ValueError, match=r"1 samples of A1 are missing, among them r2"):
        archive.keep(IDENTITY, result, lines[:-1], build="b")

    assert list(archive.directory.iterdir()) == []
