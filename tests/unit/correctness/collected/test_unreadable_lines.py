# SPDX-License-Identifier: Apache-2.0
"""A child finds the lines of a large file that hold no answer, and only those."""

import os
from pathlib import Path

import psutil
import pytest

from ci_doctor.correctness.collected.formats import SampleFormat
from ci_doctor.correctness.collected.paired_lines import pair_lines
from ci_doctor.correctness.collected.sources import Source
from ci_doctor.correctness.settings import Arm

pytestmark = pytest.mark.integration

LINES = 6000


def source(arm: Arm, path: Path) -> Source:
    return Source(arm=arm, path=path, form=SampleFormat.RESPONSES)


def write(path: Path, created: int, broken: dict[int, bytes]) -> None:
    answer = b'"model":"m","choices":[{"index":0,"text":"%s"}]}\n' % (b"Paris " * 300)
    with path.open("wb") as file:
        for number in range(LINES):
            head = b'{"id":"cmpl-%d","object":"text_completion","created":%d,' % (number, created)
            file.write(head + broken.get(number, answer))


@pytest.mark.parametrize("processors", [1, 2])
def test_lines_that_are_alike_and_hold_no_answer_are_odd_and_so_are_those_that_differ(
    tmp_path: Path, processors: int
) -> None:
    alike = {7: b'"model":"m","choices":[]}\n', LINES - 1: b'"model":"m","choices":[{"text":"tor\n'}
    write(tmp_path / "a", 1, alike)
    write(tmp_path / "b", 22, {**alike, 4000: b'"model":"m","choices":[{"text":"other"}]}\n'})
    own = os.sched_getaffinity(0)

    try:
        os.sched_setaffinity(0, sorted(own)[:processors])
        pairs = pair_lines(
            source(Arm.BASELINE, tmp_path / "a"), source(Arm.CANDIDATE, tmp_path / "b")
        )
    finally:
        os.sched_setaffinity(0, own)

    assert pairs is not None
    assert sorted(pairs.odd) == [7, 4000, LINES - 1]
    position = pairs.odd[4000][1]
    with position.source.path.open("rb") as file:
        file.seek(position.offset)
        assert b'"other"' in file.read(position.length)


def test_files_that_do_not_run_in_step_leave_no_child_behind(tmp_path: Path) -> None:
    write(tmp_path / "a", 1, {})
    write(tmp_path / "b", 2, {3: b'"choices"\n'})
    (tmp_path / "b").write_bytes((tmp_path / "b").read_bytes() + b"{}\n")

    before = psutil.Process().children()

    assert (
        pair_lines(source(Arm.BASELINE, tmp_path / "a"), source(Arm.CANDIDATE, tmp_path / "b"))
        is None
    )
    assert psutil.Process().children() == before
