"""`python benchmarks/shape.py` as people call it."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.integration, pytest.mark.nightly]

ROOT = Path(__file__).parents[2]


def shape(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / "benchmarks/shape.py"), *arguments],
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )


def test_the_figures_of_the_package_stand_beside_those_of_another(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text("x = 1\n")

    ran = shape(str(tmp_path))

    assert (ran.returncode, ran.stderr) == (0, ""), ran
    head, *lines = ran.stdout.splitlines()
    assert head.replace("|", " ").split() == ["ci_doctor", tmp_path.name, "aim"]
    (nodes,) = (line for line in lines if line.startswith("| syntax nodes a line"))
    assert nodes.endswith("| 5.0 | 6.8 |")


def test_a_directory_without_code_is_named(tmp_path: Path) -> None:
    ran = shape(str(tmp_path))

    assert (ran.returncode, ran.stdout) == (1, ""), ran
    assert "no Python code below it" in ran.stderr
