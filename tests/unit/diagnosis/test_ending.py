# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from ci_doctor.diagnosis.diagnosis import diagnose, load_rules

STAMP = "2026-11-22T14:04:08.1234567Z "
STEP = f"{STAMP}##[group]Run pytest\n{STAMP}OSError: [Errno 98] Address already in use\n"


@pytest.mark.parametrize("end", ["", STAMP[:14], f"{STAMP}waiting for the server"])
def test_a_log_cut_inside_a_step_does_not_end_well(tmp_path: Path, end: str) -> None:
    log = tmp_path / "job.log"
    log.write_text(STEP + end)
    diagnosis = diagnose([str(log)], load_rules())
    assert diagnosis.cause is not None
    assert (diagnosis.ended_well, diagnosis.cause.rule) == (False, "port/in-use")


def test_a_log_with_the_clean_up_of_its_job_ends_well(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_text(f"{STEP}{STAMP}Post job cleanup.\n")
    diagnosis = diagnose([str(log)], load_rules())
    assert (diagnosis.ended_well, diagnosis.cause) == (True, None)


@pytest.mark.parametrize(("end", "is_named"), [("Val", False), ("ValueError: bad", True)])
def test_a_name_that_is_cut_is_no_exception(tmp_path: Path, end: str, is_named: bool) -> None:
    log = tmp_path / "job.log"
    frame = '  File "/w/a.py", line 3, in f\n    g()\n'
    log.write_text(f"Traceback (most recent call last):\n{frame}{end}")
    assert (diagnose([str(log)], load_rules()).cause is not None) is is_named


def test_words_of_a_tool_after_the_report_of_a_passed_job_change_nothing(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    printed = "Build step 'make' marked build as failure\n"
    log.write_text(f"{printed}Finished: SUCCESS\nSuccessfully installed wheel-0.45\n")
    assert diagnose([str(log)], load_rules()).ended_well
