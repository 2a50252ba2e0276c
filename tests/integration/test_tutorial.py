"""Every file and command of docs/tutorial.md gives what the page shows, from an empty folder.

The virtual environment of the tests stands in for the one that the page installs; tests/ways_in.sh installs one.
"""

import shutil
from pathlib import Path

import pytest

from tests.support.page_runs import reader_environment, take
from tests.support.page_steps import Commands, steps_of

pytestmark = [pytest.mark.integration, pytest.mark.nightly]
DOCS = Path(__file__).parents[2] / "docs"
REPORT = "ci-doctor-report"


@pytest.fixture(scope="module")
def red_build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page, done to its end; gives a folder with the report of its regression."""
    folder = tmp_path_factory.mktemp("first-verdict")
    kept = tmp_path_factory.mktemp("red-build")
    environ = reader_environment()
    for step in steps_of((DOCS / "tutorial.md").read_text(encoding="utf-8")):
        take(step, folder, environ)
        if isinstance(step, Commands) and step.expected_status == 1:
            shutil.copytree(folder / REPORT, kept / REPORT)
    return kept


def test_the_tutorial_shows_what_its_commands_print(red_build: Path) -> None:
    assert (red_build / REPORT / "report.html").exists()


def test_a_red_build_is_looked_at_again(red_build: Path) -> None:
    page = (DOCS / "how-do-i" / "reproduce-a-red-build.md").read_text(encoding="utf-8")

    for step in steps_of(page):
        take(step, red_build, reader_environment())
