"""`ci-doctor doctor python`, as people type it."""

import json
from pathlib import Path

import pytest

from tests.support.cli import doctor
from tests.support.packages import make_venv

pytestmark = pytest.mark.integration


def _rules(text: str) -> list[str]:
    return [finding["rule"] for finding in json.loads(text)["findings"]]


def test_the_projects_environment_without_its_base_ends_75_and_names_the_repair(
    tmp_path: Path,
) -> None:
    python = make_venv(tmp_path / ".venv")
    python.unlink()
    python.symlink_to("/gone/python3.11")

    ran = doctor("doctor", "python", cwd=tmp_path, env={"VIRTUAL_ENV": None})

    assert ran.code == 75, ran
    assert "doctor/interpreter-missing" in ran.out
    assert "-m venv --upgrade" in ran.out


def test_a_module_in_pythonpath_that_ci_doctor_would_import_is_named(tmp_path: Path) -> None:
    job = tmp_path / "job"
    make_venv(job / ".venv")
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "random.py").write_text("raise RuntimeError('not the one of Python')")

    environ = {"VIRTUAL_ENV": None, "PYTHONPATH": str(theirs)}
    ran = doctor("doctor", "python", "--json", cwd=job, env=environ)

    assert ran.code == 75, ran
    assert _rules(ran.out) == ["doctor/module-shadowed"]
