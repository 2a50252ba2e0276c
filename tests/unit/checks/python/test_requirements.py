from pathlib import Path

import pytest
from ci_doctor.checks.python.requirements import CHECK
from ci_doctor.checks.python.rules import REQUIREMENT_UNMET

from ci_doctor.checks.check import CheckStatus
from tests.support.packages import install, site_of
from tests.unit.checks.python.conftest import Examine


def test_met_requirements_are_ok_and_extras_do_not_count(python: Path, examine: Examine) -> None:
    result = examine(CHECK, python)

    assert result.status is CheckStatus.OK
    assert result.summary == "1 requirement compared with what is installed"


@pytest.mark.parametrize(
    ("requirement", "words"),
    [
        ("absent>=1", "absent>=1, which is not installed"),
        ("frame<2", "frame<2, and 2.0 is installed"),
        ("Frame==2.1.*", "Frame==2.1.*, and 2.0 is installed"),
        ("absent; python_version >= '3'", "absent, which is not installed"),
    ],
)
def test_an_unmet_requirement_is_a_warning(
    requirement: str, words: str, python: Path, examine: Examine
) -> None:
    install(site_of(python), "needy", "1", requires=[requirement])

    result = examine(CHECK, python)

    assert result.status is CheckStatus.WARNING
    (found,) = result.problems
    assert found.finding.rule == REQUIREMENT_UNMET.id
    assert found.finding.summary == f"needy 1 requires {words}"


@pytest.mark.parametrize(
    "requirement",
    [
        "absent; python_version < '3'",
        "absent; sys_platform == 'win32'",
        "absent; extra == 'all'",
        "absent; platform_machine == 'none'",
        "frame @ https://example.org/frame.whl",
        "not a requirement !",
    ],
)
def test_what_does_not_hold_here_or_cannot_be_read_is_left_out(
    requirement: str, python: Path, examine: Examine
) -> None:
    install(site_of(python), "needy", "1", requires=[requirement])

    assert examine(CHECK, python).problems == ()


def test_a_prerelease_meets_a_requirement_as_for_pip_check(python: Path, examine: Examine) -> None:
    site = site_of(python)
    install(site, "nightly", "2.0.dev1")
    install(site, "needy", "1", requires=["nightly>=1"])

    assert examine(CHECK, python).problems == ()


def test_a_distribution_for_another_python_is_a_warning(python: Path, examine: Examine) -> None:
    folder = install(site_of(python), "old", "1")
    text = (folder / "METADATA").read_text()
    (folder / "METADATA").write_text(f"Requires-Python: <3.9\n{text}")

    (found,) = examine(CHECK, python).problems

    assert "old 1 requires Python <3.9, and this is Python" in found.finding.summary
