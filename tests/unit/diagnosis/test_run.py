# SPDX-License-Identifier: Apache-2.0
"""From names to a diagnosis, and how far it is."""

import gzip
from pathlib import Path

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
