import os
from pathlib import Path

from ci_doctor.checks.python.duplicates import CHECK
from ci_doctor.checks.python.rules import DISTRIBUTION_TWICE

from ci_doctor.checks.check import CheckStatus
from tests.support.packages import install, site_of
from tests.unit.checks.python.conftest import Examine


def test_a_sound_environment_is_ok(python: Path, examine: Examine) -> None:
    result = examine(CHECK, python)

    assert result.status is CheckStatus.OK
    assert result.summary == "2 distributions installed"


def test_two_versions_in_one_directory_are_an_error(python: Path, examine: Examine) -> None:
    install(site_of(python), "engine", "1.1")

    (found,) = examine(CHECK, python).problems

    assert found.finding.rule == DISTRIBUTION_TWICE.id
    assert found.finding.severity == "error"
    assert "engine is installed twice" in found.finding.summary
    assert "as 1.0 and 1.1" in found.finding.summary


def test_names_are_compared_in_their_normal_form(python: Path, examine: Examine) -> None:
    site = site_of(python)
    install(site, "Some.Engine", "1.0", files={"a.py": b""})
    install(site, "some-engine", "2.0", files={"b.py": b""})

    (found,) = examine(CHECK, python).problems

    assert "some-engine is installed twice" in found.finding.summary


def test_a_version_that_pythonpath_puts_before_another_is_a_warning(
    python: Path, tmp_path: Path, examine: Examine
) -> None:
    overlay = tmp_path / "overlay"
    install(overlay, "engine", "9.0")

    result = examine(CHECK, python, PYTHONPATH=str(overlay))

    assert result.status is CheckStatus.WARNING
    assert f"engine 9.0 in {overlay} hides engine 1.0" in result.problems[0].finding.summary


def test_the_metadata_beside_the_source_of_an_editable_installation_are_no_copy(
    python: Path, tmp_path: Path, examine: Examine
) -> None:
    source = tmp_path / "source"
    (source / "engine.egg-info").mkdir(parents=True)
    (source / "engine.egg-info" / "PKG-INFO").write_text("Name: engine\nVersion: 7\n\n")
    (site_of(python) / "__editable__.engine.pth").write_text(f"{source}\n")

    assert examine(CHECK, python).problems == ()


def test_the_remedy_installs_the_version_that_came_last(python: Path, examine: Examine) -> None:
    folder = install(site_of(python), "engine", "0.9")
    os.utime(folder, (4e9, 4e9))

    (found,) = examine(CHECK, python).problems

    assert str(found.finding.remedy).endswith(" engine==0.9")


def test_a_copy_in_pythonpath_is_not_to_be_uninstalled(
    python: Path, tmp_path: Path, examine: Examine
) -> None:
    overlay = tmp_path / "overlay"
    install(overlay, "engine", "9.0")

    (found,) = examine(CHECK, python, PYTHONPATH=str(overlay)).problems

    assert f"leave {overlay} out of PYTHONPATH" in str(found.finding.remedy)
