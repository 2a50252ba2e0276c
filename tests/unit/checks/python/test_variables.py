from pathlib import Path

import pytest
from ci_doctor.checks.python.variables import CHECK

from ci_doctor.checks.check import CheckStatus
from ci_doctor.checks.python import rules
from tests.support.packages import VERSION, install
from tests.unit.checks.python.conftest import Examine


def test_a_plain_environment_is_ok(python: Path, examine: Examine) -> None:
    result = examine(CHECK, python)

    assert result.status is CheckStatus.OK
    assert result.summary == "no variable of Python is set"


def test_packages_of_another_version_in_pythonpath_are_a_warning(
    python: Path, tmp_path: Path, examine: Examine
) -> None:
    other = tmp_path / "lib" / "python3.8" / "site-packages"
    other.mkdir(parents=True)

    result = examine(CHECK, python, PYTHONPATH=f"{tmp_path}:{other}")

    assert result.status is CheckStatus.WARNING
    (found,) = result.problems
    assert found.finding.rule == rules.PYTHONPATH_LEAK.id
    assert f"to packages of Python 3.8: {other}" in found.finding.summary
    assert found.finding.remedy == f"export PYTHONPATH={tmp_path}"


def test_packages_of_another_environment_in_pythonpath_are_a_warning(
    python: Path, tmp_path: Path, examine: Examine
) -> None:
    other = tmp_path / "other" / "lib" / f"python{VERSION}" / "site-packages"
    other.mkdir(parents=True)

    assert examine(CHECK, python, PYTHONPATH=str(other)).status is CheckStatus.WARNING


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("/gone/lib", "/gone/lib, which does not exist"),
        (":/", "an empty entry"),
        (".", "another directory wherever a program starts"),
    ],
)
def test_entries_that_may_surprise_are_notes(
    value: str, words: str, python: Path, examine: Examine
) -> None:
    result = examine(CHECK, python, PYTHONPATH=value)

    assert result.status is CheckStatus.OK
    assert words in result.problems[0].finding.summary


def test_packages_of_the_users_own_directory_are_a_note(tmp_path: Path, examine: Examine) -> None:
    import sys

    base = Path(sys.base_prefix) / "bin" / f"python{VERSION}"
    site = tmp_path / ".local" / "lib" / f"python{VERSION}" / "site-packages"
    install(site, "leak", "3")

    result = examine(CHECK, base, HOME=str(tmp_path))

    assert [each.finding.rule for each in result.problems] == [rules.USER_SITE_LEAK.id]
    assert "leak 3" in result.problems[0].finding.summary
    assert examine(CHECK, base, HOME=str(tmp_path), PYTHONNOUSERSITE="1").problems == ()


@pytest.mark.parametrize(
    ("name", "value", "is_said"),
    [
        ("PIP_TARGET", "/opt/elsewhere", True),
        ("PIP_USER", "1", True),
        ("PIP_USER", "0", False),
        ("UV_SYSTEM_PYTHON", "true", True),
        ("PIP_NO_CACHE_DIR", "1", False),
        ("UV_PYTHON", "3.12", False),
        ("UV_PYTHON", "/opt/elsewhere/bin/python", True),
        ("UV_PROJECT_ENVIRONMENT", ".another", True),
    ],
)
def test_variables_that_make_installers_install_elsewhere(
    name: str, value: str, is_said: bool, python: Path, examine: Examine
) -> None:
    result = examine(CHECK, python, **{name: value})

    names = [each.finding.rule for each in result.problems]
    assert names == [rules.INSTALLER_REDIRECTED.id] * is_said


def test_installers_may_be_led_to_the_environment_of_the_job(
    python: Path, examine: Examine
) -> None:
    environ = {"UV_PYTHON": str(python), "UV_PROJECT_ENVIRONMENT": str(python.parent.parent)}

    assert examine(CHECK, python, **environ).problems == ()


def test_asserts_that_are_removed_are_a_warning(python: Path, examine: Examine) -> None:
    result = examine(CHECK, python, PYTHONOPTIMIZE="1")

    assert [each.finding.rule for each in result.problems] == [rules.ASSERTS_REMOVED.id]


def test_another_standard_library_is_a_warning(python: Path, examine: Examine) -> None:
    import sys

    result = examine(CHECK, python, PYTHONHOME=sys.base_prefix)

    assert rules.PYTHONPATH_LEAK.id in [each.finding.rule for each in result.problems]


def test_entries_that_lead_nowhere_are_one_note(
    python: Path, tmp_path: Path, examine: Examine
) -> None:
    gone = ":".join(f"/gone/{number}" for number in range(200))

    (found,) = examine(CHECK, python, PYTHONPATH=f"{gone}:{tmp_path}").problems

    assert found.finding.severity == "note"
    assert "/gone/0, which does not exist, and 199 more" in found.finding.summary
    assert found.finding.remedy == f"export PYTHONPATH={tmp_path}"
