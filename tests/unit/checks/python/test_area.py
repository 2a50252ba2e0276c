"""No check gives a false alarm about interpreters as they are found."""

import os
import sys
from pathlib import Path

import pytest

from ci_doctor.checks.python.area import checks
from ci_doctor.checks.running import run_checks
from ci_doctor.checks.settings import DoctorSettings
from ci_doctor.model.finding import Severity
from tests.support.checks import check_context, without_deadlines
from tests.support.packages import VERSION, make_venv
from tests.unit.checks.python.conftest import ENVIRON

CHECKS = without_deadlines(checks(DoctorSettings()))


def _said_of(python: Path, cwd: Path, least: Severity) -> list[str]:
    """The rules of the findings that are as severe as `least`."""
    severities = [Severity.WARNING, Severity.ERROR][least is Severity.ERROR :]
    context = check_context(cwd, environ=ENVIRON, pythons=[python])
    finished = list(run_checks(CHECKS, context))
    assert [each.check.id for each in finished if each.result.unknown is not None] == []
    return [
        problem.finding.rule
        for each in finished
        for problem in each.result.problems
        if problem.finding.severity in severities
    ]


def test_nothing_is_said_of_a_sound_environment(sound_venv: Path, tmp_path: Path) -> None:
    assert _said_of(sound_venv / "bin" / "python", tmp_path, Severity.WARNING) == []


def test_nothing_is_said_of_one_above_the_packages_of_its_base(tmp_path: Path) -> None:
    python = make_venv(tmp_path / "venv", "--system-site-packages")

    assert _said_of(python, tmp_path, Severity.ERROR) == []


@pytest.mark.skipif(not os.access("/usr/bin/python3", os.X_OK), reason="there is none here")
def test_nothing_is_said_of_the_python_of_the_operating_system(tmp_path: Path) -> None:
    assert _said_of(Path("/usr/bin/python3"), tmp_path, Severity.WARNING) == []


def test_no_error_is_said_of_the_python_that_runs_these_tests(tmp_path: Path) -> None:
    assert _said_of(Path(sys.executable), tmp_path, Severity.ERROR) == []


def test_a_prefix_of_conda_is_no_virtual_environment_that_lost_its_config(tmp_path: Path) -> None:
    """Its Python stands in it with its own standard library, beside an `activate`."""
    base = Path(sys.base_prefix)
    prefix = tmp_path / "conda"
    (prefix / "bin").mkdir(parents=True)
    (prefix / "conda-meta").mkdir()
    (prefix / "bin" / "activate").write_text("# as conda has it\n")
    library = prefix / "lib" / f"python{VERSION}"
    library.mkdir(parents=True)
    for entry in (base / "lib" / f"python{VERSION}").iterdir():
        if entry.name != "site-packages":
            (library / entry.name).symlink_to(entry)
    (library / "site-packages").mkdir()
    for entry in (base / "lib").glob("libpython*"):
        (prefix / "lib" / entry.name).symlink_to(entry)
    python = prefix / "bin" / f"python{VERSION}"
    python.write_bytes((base / "bin" / f"python{VERSION}").read_bytes())
    python.chmod(0o755)

    assert _said_of(python, tmp_path, Severity.WARNING) == []
