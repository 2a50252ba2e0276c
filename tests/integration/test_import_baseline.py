# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor import-race --baseline FILE`: known races are accepted, and only these."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration.import_programs import Program, named
from tests.support.cli import Ran, doctor

pytestmark = pytest.mark.integration

NAME = "known.txt"
RACY = named("replaced, thread first")
LINE = "self-replacing lazypkg"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return RACY.write(tmp_path)


def race(folder: Path, *args: str, code: int) -> dict[str, Any]:
    ran = run(folder, *args)
    assert ran.code == code, ran
    report: dict[str, Any] = json.loads((folder / "out" / "report.json").read_text())
    return report


def run(folder: Path, *args: str) -> Ran:
    line = ("import-race", "--report-dir", "out", *args, "--", sys.executable, "main.py")
    return doctor(*line, cwd=folder, timeout=90)


def test_what_was_accepted_passes_and_is_not_confirmed(folder: Path) -> None:
    report = race(folder, "--baseline", NAME, "--update-baseline", code=0)
    assert report["facts"]["counts"]["known"] == 1
    assert (folder / NAME).read_text().splitlines()[1:] == [LINE]

    report = race(folder, "--confirm", "--baseline", NAME, code=0)

    assert (report["verdict"], len(report["attempts"])) == ("pass", 1)
    (finding,) = report["findings"]
    assert (finding["rule"], finding["severity"]) == ("import-race/self-replacing", "note")
    assert "the baseline accepts it" in finding["summary"]
    (hazard,) = report["facts"]["hazards"]
    assert (hazard["standing"], hazard["id"]) == ("known", LINE)


def test_another_race_is_not_accepted_and_entries_without_a_race_are_told(folder: Path) -> None:
    race(folder, "--baseline", NAME, "--update-baseline", code=0)
    RACY.write(folder)
    (folder / "main.py").write_text(named("submodule, thread at package").text)

    report = race(folder, "--baseline", NAME, code=86)

    rules = {finding["rule"]: finding for finding in report["findings"]}
    assert set(rules) == {"import-race/submodule-order", "import-race/baseline-unused"}
    assert rules["import-race/baseline-unused"]["evidence"][0]["excerpt"] == LINE
    assert report["facts"]["baseline_unused"] == [LINE]
    race(folder, "--baseline", NAME, "--update-baseline", code=0)
    assert (folder / NAME).read_text().splitlines()[1:] == ["submodule-order pkg+pkg.sub"]


def test_the_baseline_may_stand_in_the_configuration(folder: Path) -> None:
    (folder / "ci-doctor.toml").write_text(f'[import-race]\nbaseline = "{NAME}"\n')
    race(folder, "--update-baseline", code=0)

    race(folder, code=0)

    assert LINE in (folder / NAME).read_text()


@pytest.mark.parametrize(
    ("text", "args", "said"),
    [
        (None, ("--baseline", NAME), "there is no such baseline"),
        ("cycle a+b\n", ("--baseline", NAME), "is not a baseline of ci-doctor"),
        ("hello", ("--baseline", NAME, "--update-baseline"), "is not a baseline of ci-doctor"),
        (None, ("--update-baseline",), "no baseline is named"),
    ],
)
def test_a_baseline_that_cannot_be_used_is_refused_before_anything_starts(
    text: str | None, args: tuple[str, ...], said: str, folder: Path
) -> None:
    if text is not None:
        (folder / NAME).write_text(text)

    ran = run(folder, *args)

    assert (ran.code, ran.out) == (2, ""), ran
    assert said in ran.err
    assert (folder / NAME).exists() is (text is not None)


@pytest.mark.parametrize(
    ("program", "code"), [("raise SystemExit(3)", 86), ("import os; os.kill(os.getpid(), 9)", 86)]
)
def test_a_run_that_is_no_evidence_does_not_change_it(
    program: str, code: int, folder: Path
) -> None:
    race(folder, "--baseline", NAME, "--update-baseline", code=0)
    before = (folder / NAME).read_text()
    Program(name="", text=program).write(folder)

    report = race(folder, "--baseline", NAME, "--update-baseline", code=code)

    assert (folder / NAME).read_text() == before
    assert "import-race/baseline-not-updated" in {each["rule"] for each in report["findings"]}
