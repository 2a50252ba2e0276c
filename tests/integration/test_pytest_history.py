# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor pytest` with a history: what it reads from a real one, and one that cannot be used."""

import sqlite3
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.support.cli import doctor
from tests.support.git_repository import commit, git, make_repository
from tests.support.histories import BEGIN_MS, HOUR_MS, F, P, engine_of, history, run
from tests.support.pytest_projects import TestProject, make_environment
from tests.support.silent_server import LOGGED_IN, silent_server

pytestmark = pytest.mark.integration


@pytest.fixture
def project(tmp_path: Path) -> TestProject:
    """Two commits: the second one breaks `test_value`, and adds `test_new`."""
    project = TestProject(tmp_path / "project", make_environment(tmp_path / "venv"))
    value = "import product\ndef test_value(): assert product.VALUE == 1\n"
    held = "def test_held(): pass\n"
    make_repository(
        project.directory,
        {
            "pytest.ini": "[pytest]\npythonpath = .\n",
            "product.py": "VALUE = 1\n",
            "tests/test_a.py": value + held,
            "ci-doctor-quarantine.toml": '[[quarantine]]\ntest = "tests/test_a.py::test_held"\n'
            'reason = "r"\nowner = "o"\nuntil = 2999-01-01\n',
        },
    )
    new = "def test_new(): pass\n"
    commit(project.directory, {"product.py": "VALUE = 2\n", "tests/test_a.py": value + held + new})
    return project


def test_the_history_tells_a_regression_new_tests_and_an_entry_that_may_go(
    project: TestProject, tmp_path: Path
) -> None:
    base = git(project.directory, "rev-parse", "HEAD^")
    now = int((time.time() * 1000 - BEGIN_MS) / HOUR_MS)
    # Four jobs a day at the base, for twenty days.
    passed = [("test_value", P), ("test_held", P)]
    step = "unit (cuda 12)"
    runs = [run(passed, at=now - 6 * number, commit=base, step=step) for number in range(80)]
    runs.append(run([("test_value", F)], at=now, commit=base, step="unit (cuda 13)"))
    with history(tmp_path / "h.sqlite", runs):
        pass

    ran = project.doctor(
        "--new-tests=2",
        "--reruns=0",
        env={
            "CI_DOCTOR_HISTORY_DATABASE": str(tmp_path / "h.sqlite"),
            "BUILDKITE": "true",
            "BUILDKITE_JOB_ID": "0190",
            "BUILDKITE_PIPELINE_SLUG": "serving",
            "BUILDKITE_STEP_KEY": "unit",
            "BUILDKITE_LABEL": "cuda 12",
        },
    )

    assert ran.code == 1, ran
    assert project.verdicts()["tests/test_a.py::test_value"] == "regression"
    summaries = {each["rule"]: each["summary"] for each in project.report["findings"]}
    assert "80 passed jobs, then 1 failed attempt" in summaries["test-run/regression"]
    assert summaries["test-run/new-tests"] == "1 tests are new"
    assert "0 of 80 attempts failed in" in summaries["test-run/quarantine-green"]


def test_new_tests_that_no_source_knows_are_void(project: TestProject, tmp_path: Path) -> None:
    with engine_of(tmp_path / "h.sqlite"):
        pass

    ran = project.doctor(
        "--new-tests=2",
        "--",
        "-k",
        "held or new",
        env={"CI_DOCTOR_HISTORY_DATABASE": str(tmp_path / "h.sqlite")},
    )

    assert ran.code == 86, ran
    assert "the history knows 0 of 2 tests at the base" in project.report["summary"]


def changed_file(path: Path, kind: str) -> str:
    with engine_of(path):
        pass
    if kind == "newer":
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("UPDATE alembic_version SET version_num = '9999'")
    else:
        # Byte 18 of the header: more than 2 stands for a file that may only be read
        # (https://www.sqlite.org/fileformat.html). Permissions do not stop root.
        content = bytearray(path.read_bytes())
        content[18] = 3
        path.write_bytes(content)
    return str(path)


@contextmanager
def unusable(path: Path, kind: str) -> Iterator[str]:
    """A database that takes no run."""
    if kind == "silent":
        with silent_server(LOGGED_IN) as url:
            yield f"{url}?sslmode=disable&gssencmode=disable"
    elif kind == "closed":
        with silent_server() as url:
            pass
        yield url
    else:
        yield changed_file(path, kind)


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        ("readonly", "cannot be written"),
        ("newer", "its schema is 9999"),
        ("closed", "refused"),
        ("silent", "no answer within 5 s"),
    ],
)
@pytest.mark.gate(1)
def test_a_history_that_cannot_be_used_is_named_and_changes_no_status(
    tmp_path: Path, kind: str, problem: str
) -> None:
    program = "print('TypeError: f() got an unexpected keyword argument'); raise SystemExit(3)"
    command = (sys.executable, "-c", program)

    with unusable(tmp_path / "h.sqlite", kind) as database:
        env = {"CI_DOCTOR_HISTORY_DATABASE": database}
        ran = doctor("run", "--diagnose", "--", *command, cwd=tmp_path, env=env)

    assert ran.code == 3, ran
    (line,) = [line for line in ran.err.splitlines() if line.startswith("history: ")]
    # A file that can be read still says how often the cause was seen.
    assert "not written: " in line
    assert problem in line


def test_a_dead_database_is_named_once_and_a_failure_stays_one(
    project: TestProject, tmp_path: Path
) -> None:
    with unusable(tmp_path / "h.sqlite", "closed") as database:
        ran = project.doctor("--reruns=0", env={"CI_DOCTOR_HISTORY_DATABASE": database})

    assert ran.code == 1, ran
    assert project.verdicts()["tests/test_a.py::test_value"] == "failed"
    assert project.rules().count("test-run/history") == 1
    assert "not written: " in ran.err
