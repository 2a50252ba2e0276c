# SPDX-License-Identifier: Apache-2.0
"""From names to a diagnosis, and how far it is."""

import gzip
from pathlib import Path

import pytest

from ci_doctor.diagnosis.outcome import outcome_of
from ci_doctor.diagnosis.run import DiagnoseRequest, run


def test_names_that_mean_nothing_are_unreadable(tmp_path: Path) -> None:
    request = DiagnoseRequest(logs=(str(tmp_path / "none-*.log"), str(tmp_path / "gone.log")))

    diagnosis = run(request)

    assert diagnosis.logs == ()
    assert set(diagnosis.unreadable) == set(request.logs)


def test_progress_names_each_log_up_to_its_end(tmp_path: Path) -> None:
    for name in ("a.log", "b.log"):
        (tmp_path / name).write_text("all is well\n" * 1000)
    told: list[str] = []

    run(DiagnoseRequest(logs=(str(tmp_path),)), told.append)

    assert told == [f"reading {tmp_path}/a.log, 100 %", f"reading {tmp_path}/b.log, 100 %"]


def test_a_packed_log_that_breaks_off_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    lines = "".join(f"line {number} of a log\n" for number in range(5000))
    whole = gzip.compress(lines.encode())
    (tmp_path / "cut.log.gz").write_bytes(whole[: len(whole) // 2])
    name = str(tmp_path / "cut.log.gz")

    diagnosis = run(DiagnoseRequest(logs=(name,)))
    findings = outcome_of(diagnosis).findings

    assert diagnosis.logs == (name,)
    assert "is read in part" in findings[-1].summary


ONE = (
    '  File "server.py", line 68\n    def broken(:\n               ^\nSyntaxError: invalid syntax\n'
)
OTHER = "2026-11-24 09:00:0{} ERROR worker.py:{} -- widget {} does not fit\n"


@pytest.mark.parametrize(
    "texts", [(ONE, ONE), (ONE + ONE,), (OTHER.format(1, 7, 1), OTHER.format(9, 7, 2))]
)
def test_a_failure_that_is_there_twice_is_as_sure_as_once(
    tmp_path: Path, texts: tuple[str, ...]
) -> None:
    (tmp_path / "once").mkdir()
    (tmp_path / "once" / "a.log").write_text(texts[0].replace(ONE + ONE, ONE))
    for number, text in enumerate(texts):
        (tmp_path / f"{number}.log").write_text(text)
    names = tuple(str(tmp_path / f"{number}.log") for number in range(len(texts)))

    once = run(DiagnoseRequest(logs=(str(tmp_path / "once"),), status=1)).cause
    twice = run(DiagnoseRequest(logs=names, status=1)).cause

    assert once is not None
    assert twice is not None
    assert (twice.place.file, twice.place.line) == (names[0], once.place.line)
    assert twice.confidence == pytest.approx(once.confidence, abs=0.02)
