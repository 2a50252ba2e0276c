from pathlib import Path

from ci_doctor.checks.python.installations import CHECK
from ci_doctor.checks.python.rules import INSTALLATION_INTERRUPTED

from ci_doctor.checks.check import CheckStatus
from tests.support.packages import install, site_of
from tests.unit.checks.python.conftest import Examine


def test_complete_installations_are_ok(python: Path, examine: Examine) -> None:
    assert examine(CHECK, python).status is CheckStatus.OK


def test_a_folder_that_pip_has_put_aside_is_a_warning(python: Path, examine: Examine) -> None:
    aside = site_of(python) / "~ngine"
    aside.mkdir()

    result = examine(CHECK, python)

    assert result.status is CheckStatus.WARNING
    (found,) = result.problems
    assert found.finding.rule == INSTALLATION_INTERRUPTED.id
    assert found.finding.remedy == f"rm -r '{aside}'"


def test_metadata_that_are_missing_or_empty_are_an_error(python: Path, examine: Examine) -> None:
    site = site_of(python)
    (site / "engine-1.0.dist-info" / "METADATA").unlink()
    (site / "frame-2.0.dist-info" / "METADATA").write_text("")

    engine, frame = examine(CHECK, python).problems

    assert "there is no METADATA" in engine.finding.summary
    assert "METADATA names no name and version" in frame.finding.summary
    assert engine.finding.severity == "error"


def test_a_missing_record_is_an_error_if_the_installer_writes_one(
    python: Path, examine: Examine
) -> None:
    site = site_of(python)
    (site / "engine-1.0.dist-info" / "RECORD").unlink()
    (site / "frame-2.0.dist-info" / "RECORD").write_text("")
    folder = install(site, "other", "1")
    (folder / "RECORD").unlink()
    (folder / "INSTALLER").write_text("conda\n")

    engine, frame = examine(CHECK, python).problems

    assert "engine 1.0 is not completely installed: there is no RECORD" in engine.finding.summary
    assert "RECORD is empty" in frame.finding.summary


def test_the_remedy_installs_the_version_that_was_there(python: Path, examine: Examine) -> None:
    folder = install(site_of(python), "late", "1.5")
    (folder / "METADATA").unlink()

    (late,) = examine(CHECK, python).problems

    assert str(late.finding.remedy).endswith(" late==1.5")


def test_an_egg_info_that_is_a_file_is_known(python: Path, examine: Examine) -> None:
    text = "Metadata-Version: 1.1\nName: iii\nVersion: 1.0\n"
    (site_of(python) / "iii-1.0-py3.11.egg-info").write_text(text)

    assert examine(CHECK, python).unknown is None
