# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

from ci_doctor.diagnosis.diagnosis import diagnose, load_rules

GOOD = """\
loading model at 2026-11-21T10:00:00Z
ERROR: plugin foo is not installed
serving on port 8000
all 12 requests answered
"""


def write(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


def test_an_error_of_the_good_run_explains_nothing(tmp_path: Path) -> None:
    good = write(tmp_path / "good.log", GOOD)
    bad = write(
        tmp_path / "bad.log",
        GOOD.replace("all 12", "only 3") + "ERROR: request 4 has a wrong answer\n",
    )
    assert diagnose([bad], load_rules(), [good]).best != diagnose([bad], load_rules()).best
    best = diagnose([bad], load_rules(), [good]).best
    assert best is not None
    assert best.text == "ERROR: request 4 has a wrong answer"


def test_without_any_candidate_the_first_of_the_last_new_lines_is_shown(tmp_path: Path) -> None:
    good = write(tmp_path / "good.log", GOOD)
    bad = write(
        tmp_path / "bad.log",
        "loading model at 2026-11-22T11:11:11Z\nserving on port 9000\nthe answers are odd today\nand so it goes\n",
    )
    diagnosis = diagnose([bad], load_rules(), [good])
    assert diagnosis.cause is None
    assert diagnosis.best is not None
    assert diagnosis.best.text == "the answers are odd today"
