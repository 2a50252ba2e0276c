# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

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


BODY = (
    "starting the widget server",
    "ERROR: optional plugin foo is not installed",
    "loading model weights from the cache",
    "error: cannot read cache entry 3, using defaults",
    "serving on port 8000",
    "all requests were answered",
)
HOSTS = [("alpha", "bravo"), ("gpu-a-17", "gpu-b-2"), ("i-0abc12345def", "i-0fed98765aaa")]


@pytest.mark.parametrize(
    "form",
    ["{} {}", "{}: {}", "[{}] {}", "{} | {}", "<{}> {}", "host={} {}", "09:00:01 {} {}"],
)
@pytest.mark.parametrize("hosts", HOSTS)
@pytest.mark.parametrize(
    "new", ["ERROR: request 4 has a wrong answer", "the answer differs from the reference by 0.3"]
)
def test_the_only_new_line_is_the_cause_whatever_machine_wrote_it(
    tmp_path: Path, form: str, hosts: tuple[str, str], new: str
) -> None:
    good = write(tmp_path / "good.log", "".join(f"{form.format(hosts[0], x)}\n" for x in BODY))
    lines = [*BODY[:-1], new]
    bad = write(tmp_path / "bad.log", "".join(f"{form.format(hosts[1], x)}\n" for x in lines))

    cause = diagnose([bad], load_rules(), [good]).cause

    assert cause is not None
    assert cause.place.line == len(lines)


def test_a_calm_new_line_and_one_of_several_are_no_cause_by_that_alone(tmp_path: Path) -> None:
    good = write(tmp_path / "good.log", GOOD)
    calm = write(tmp_path / "calm.log", f"{GOOD}INFO: request 4 has an odd answer\n")
    several = write(tmp_path / "several.log", f"{GOOD}the first odd thing\nthe second odd line\n")

    assert diagnose([calm], load_rules(), [good]).cause is None
    assert diagnose([several], load_rules(), [good]).cause is None
