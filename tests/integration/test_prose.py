"""benchmarks/prose.py measures the pages of trees, in Markdown and in reStructuredText."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.integration, pytest.mark.nightly]
SCRIPT = Path(__file__).parents[2] / "benchmarks" / "prose.py"
LONG = "word " * 26


def measure(*args: str | Path) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, str(SCRIPT), *map(str, args)]
    return subprocess.run(words, capture_output=True, text=True, check=False)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "ours/docs").mkdir(parents=True)
    (tmp_path / "ours/README.md").write_text(f"Short. {LONG.capitalize()}.\n")
    (tmp_path / "ours/docs/findings.md").write_text("Made from a table.\n")
    (tmp_path / "ours/CHANGELOG.md").write_text(f"{LONG}.\n")
    (tmp_path / "other/doc").mkdir(parents=True)
    (tmp_path / "other/doc/index.rst").write_text("Title\n=====\n\nTwo words.\n")
    return tmp_path


def test_our_pages_by_hand_those_made_from_tables_and_another_project_are_columns(
    tree: Path,
) -> None:
    ran = measure("--root", tree / "ours", tree / "other")

    assert ran.returncode == 0, ran.stderr
    row = next(line for line in ran.stdout.splitlines() if line.startswith("sentences over"))
    assert row.split()[-4:] == ["50.0", "0.0", "0.0", "5"]


def test_the_long_sentences_of_a_page_are_printed(tree: Path) -> None:
    ran = measure("--long", tree / "ours/README.md")

    assert ran.stdout.split(maxsplit=1)[0] == "26"


def test_a_tree_without_pages_is_named(tmp_path: Path) -> None:
    ran = measure(tmp_path)

    assert (ran.returncode, "no page of Markdown" in ran.stderr) == (1, True)
