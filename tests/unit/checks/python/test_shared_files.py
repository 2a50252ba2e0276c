from pathlib import Path

from ci_doctor.checks.python.rules import FILES_OF_TWO_DISTRIBUTIONS
from ci_doctor.checks.python.shared_files import CHECK
from tests.support.packages import install, site_of
from tests.unit.checks.python.conftest import Examine


def test_files_of_two_distributions_are_named_with_both(python: Path, examine: Examine) -> None:
    site = site_of(python)
    install(site, "vision", "4.1", files={"cv/__init__.py": b"GUI = True\n"})
    install(site, "vision-headless", "4.2", files={"cv/__init__.py": b"GUI = False\n"})

    (found,) = examine(CHECK, python).problems

    assert found.finding.rule == FILES_OF_TWO_DISTRIBUTIONS.id
    assert "vision 4.1 and vision-headless 4.2 have both installed 1 file" in found.finding.summary
    assert found.finding.evidence[0].file == f"{site}/cv/__init__.py"


def test_the_same_content_and_folders_of_tests_are_no_conflict(
    python: Path, examine: Examine
) -> None:
    site = site_of(python)
    install(site, "one", "1", files={"space/__init__.py": b"", "tests/__init__.py": b"1"})
    install(site, "two", "2", files={"space/__init__.py": b"", "tests/__init__.py": b"2"})

    assert examine(CHECK, python).problems == ()
