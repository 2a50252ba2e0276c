# SPDX-License-Identifier: Apache-2.0
import os
import sys
from pathlib import Path

import pytest

from ci_doctor.checks.all_checks import all_checks
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.python.environments import (
    SiteKind,
    pythonpath_entries,
    read_environments,
    read_starts,
    site_directories,
)
from ci_doctor.checks.running import run_checks
from ci_doctor.checks.settings import DoctorSettings
from ci_doctor.model.outcome import Severity
from tests.support.checks import check_context, without_deadlines
from tests.support.packages import VERSION, install, make_venv, site_of
from tests.unit.checks.python.conftest import ENVIRON

CHECKS = without_deadlines(
    check for check in all_checks(DoctorSettings()) if check.area == "python"
)


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
    python = make_venv(tmp_path / "venv", "--system-site-packages", python=sys.executable)

    assert _said_of(python, tmp_path, Severity.ERROR) == []
    kinds = _kinds(check_context(tmp_path, environ=ENVIRON, pythons=[python]))
    assert kinds[str(site_of(python))] is SiteKind.OWN
    assert SiteKind.ADDED not in kinds.values()


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


def _kinds(context: CheckContext) -> dict[str, SiteKind]:
    (start,) = read_starts(context)
    assert start.state is not None
    return {str(site.path): site.kind for site in site_directories(start.state, context)}


def test_the_directories_of_an_environment_are_told_apart(python: Path, tmp_path: Path) -> None:
    for name in ("overlay", "source"):
        (tmp_path / name).mkdir()
    (site_of(python) / "own.pth").write_text(f"{tmp_path}/source\n")
    environ = {**ENVIRON, "PYTHONPATH": f"{tmp_path}/source/../overlay/:{site_of(python)}"}

    kinds = _kinds(check_context(tmp_path, environ=environ, pythons=[python]))

    # An environment that PYTHONPATH names too stays the environment's own.
    assert kinds == {
        f"{tmp_path}/overlay": SiteKind.PYTHONPATH,
        str(site_of(python)): SiteKind.OWN,
        f"{tmp_path}/source": SiteKind.ADDED,
    }


def test_the_users_directory_is_told_apart(tmp_path: Path) -> None:
    base = Path(sys.base_prefix) / "bin" / f"python{VERSION}"
    site = tmp_path / ".local" / "lib" / f"python{VERSION}" / "site-packages"
    site.mkdir(parents=True)
    environ = {**ENVIRON, "HOME": str(tmp_path)}

    kinds = _kinds(check_context(tmp_path, environ=environ, pythons=[base]))

    assert kinds[str(site)] is SiteKind.USER


def test_entries_of_pythonpath_are_below_the_jobs_directory(tmp_path: Path) -> None:
    context = check_context(tmp_path, environ={"PYTHONPATH": ":lib:/opt/x/"})

    assert pythonpath_entries(context) == [tmp_path / "lib", Path("/opt/x")]


def test_an_environment_with_pip_is_installed_to_by_it_and_one_without_by_uv(
    python: Path, tmp_path: Path
) -> None:
    context = check_context(tmp_path, environ={}, pythons=[python])
    (without,) = read_environments(context)
    install(site_of(python), "pip", "25.0")
    (environment,) = read_environments(check_context(tmp_path, environ={}, pythons=[python]))

    assert without.pip_line("install", ["a<2"]) == f"uv pip install --python {python} 'a<2'"
    engine = next(package for package in environment.packages if package.name == "engine")
    expected = f"{python} -m pip install --force-reinstall --no-deps engine==1.0"
    assert environment.reinstallation(engine).words == expected
    # It does not take the next pasted line for an answer.
    assert environment.pip_line("uninstall", ["a"]) == f"{python} -m pip uninstall -y a"
