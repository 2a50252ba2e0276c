from pathlib import Path

from ci_doctor.checks.python.installed_files import CHECK
from ci_doctor.checks.python.rules import FILES_MISSING, PACKAGE_MODIFIED

from ci_doctor.checks.check import CheckStatus
from tests.support.packages import install, site_of
from tests.unit.checks.python.conftest import Examine


def test_files_as_recorded_are_ok(python: Path, examine: Examine) -> None:
    result = examine(CHECK, python)

    assert result.status is CheckStatus.OK
    assert result.summary == "2 installed files compared with RECORD"


def test_a_missing_file_is_an_error(python: Path, examine: Examine) -> None:
    (site_of(python) / "engine" / "__init__.py").unlink()

    (found,) = examine(CHECK, python).problems

    assert found.finding.rule == FILES_MISSING.id
    assert found.finding.severity == "error"
    assert "engine 1.0 has installed engine/__init__.py" in found.finding.summary
    assert str(found.finding.remedy).endswith("--no-deps engine==1.0")


def test_a_file_that_was_edited_in_place_is_a_warning(python: Path, examine: Examine) -> None:
    (site_of(python) / "engine" / "__init__.py").write_text("VALUE = 2  # patched\n")

    result = examine(CHECK, python)

    assert result.status is CheckStatus.WARNING
    assert result.problems[0].finding.rule == PACKAGE_MODIFIED.id


def test_a_file_that_a_full_disk_has_emptied_is_an_error(python: Path, examine: Examine) -> None:
    (site_of(python) / "engine" / "__init__.py").write_text("")

    result = examine(CHECK, python)

    assert result.status is CheckStatus.ERROR
    assert "without their end: engine/__init__.py" in result.problems[0].finding.summary


def test_tests_and_data_that_an_image_has_removed_are_not_missed(
    python: Path, examine: Examine
) -> None:
    site = site_of(python)
    files = {"big/__init__.py": b"1", "big/tests/test_it.py": b"1", "big/data.txt": b"1"}
    install(site, "big", "1", files=files)
    (site / "big" / "tests" / "test_it.py").unlink()
    (site / "big" / "data.txt").unlink()

    assert examine(CHECK, python).problems == ()


def test_a_file_far_below_is_looked_at_too(python: Path, examine: Examine) -> None:
    site = site_of(python)
    files = {"large/a/b/c/core.abi3.so": b"1", "large/__init__.py": b""}
    install(site, "large", "1", files=files)
    (site / "large/a/b/c/core.abi3.so").unlink()

    (found,) = examine(CHECK, python).problems

    assert "large/a/b/c/core.abi3.so, which no longer exists" in found.finding.summary


def test_a_path_with_a_comma_is_read_as_csv_has_it(python: Path, examine: Examine) -> None:
    folder = install(site_of(python), "odd", "1")
    (folder / "RECORD").write_text('"odd/a,b.py",sha256=x,3\n')

    (found,) = examine(CHECK, python).problems

    assert "odd/a,b.py" in found.finding.summary


def test_a_file_that_another_distribution_has_overwritten_is_left_to_the_check_of_those(
    python: Path, examine: Examine
) -> None:
    site = site_of(python)
    install(site, "vision", "4.1", files={"cv/__init__.py": b"GUI = True\n"})
    install(site, "vision-headless", "4.2", files={"cv/__init__.py": b"GUI = False\n"})

    assert examine(CHECK, python).problems == ()
