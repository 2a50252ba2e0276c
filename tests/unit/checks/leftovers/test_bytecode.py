"""Bytecode of modules that are gone."""

import subprocess
import sys
from pathlib import Path

from ci_doctor.checks.leftovers.bytecode import CHECK
from tests.support.checks import check_context
from tests.support.git_repository import git


def test_what_can_still_be_imported_is_a_note(tmp_path: Path) -> None:
    (tmp_path / "old.pyc").touch()
    (tmp_path / "gone" / "__pycache__").mkdir(parents=True)
    (tmp_path / "gone" / "__pycache__" / "a.cpython-312.pyc").touch()

    (found,) = CHECK.run(check_context(tmp_path)).problems

    excerpt = found.finding.evidence[0].excerpt or ""
    assert excerpt.splitlines() == [
        str(tmp_path / "old.pyc"),
        f"{tmp_path / 'gone'} holds only __pycache__",
    ]
    # As we say, Python takes the folder for a package.
    ran = subprocess.run([sys.executable, "-c", "import gone"], cwd=tmp_path, check=False)
    assert ran.returncode == 0
    git(tmp_path, "init", "--quiet")
    subprocess.run(["sh", "-c", found.finding.remedy or "false"], cwd=tmp_path, check=True)
    assert CHECK.run(check_context(tmp_path)).problems == ()
    assert not (tmp_path / "gone").exists()


def test_the_bytecode_of_a_checkout_in_use_is_ok(tmp_path: Path) -> None:
    (tmp_path / "pkg" / "__pycache__").mkdir(parents=True)
    (tmp_path / "pkg" / "__init__.py").touch()
    (tmp_path / "pkg" / "__pycache__" / "removed.cpython-312.pyc").touch()
    (tmp_path / ".venv" / "x").mkdir(parents=True)
    (tmp_path / ".venv" / "x" / "lone.pyc").touch()

    assert CHECK.run(check_context(tmp_path)).problems == ()
