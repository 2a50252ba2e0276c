import subprocess
from pathlib import Path

from ci_doctor.checks.python.rules import VENV_MOVED
from ci_doctor.checks.python.scripts import CHECK

from ci_doctor.checks.check import CheckStatus
from tests.unit.checks.python.conftest import Examine


def _write_script(python: Path, name: str, head: str) -> None:
    (python.parent / name).write_text(f"{head}\nprint('hello')\n")


def test_programs_that_name_the_python_beside_them_are_ok(python: Path, examine: Examine) -> None:
    _write_script(python, "engine", f"#!{python}")
    _write_script(python, "other", f"#!{python.parent}/python3")

    result = examine(CHECK, python)

    assert result.status is CheckStatus.OK
    assert "2 programs" in result.summary


def test_programs_of_a_moved_environment_are_an_error(python: Path, examine: Examine) -> None:
    _write_script(python, "engine", "#!/build/venv/bin/python3.11")
    _write_script(python, "other", "#!/build/venv/bin/python")

    (found,) = examine(CHECK, python).problems

    assert found.finding.rule == VENV_MOVED.id
    assert found.finding.severity == "error"
    assert "2 programs" in found.finding.summary
    assert "/build/venv/bin, which does not exist: engine, other" in found.finding.summary


def test_a_long_first_line_is_understood(python: Path, examine: Examine) -> None:
    head = "#!/bin/sh\n'''exec' /build/a/long/path/bin/python \"$0\" \"$@\"\n' '''"
    _write_script(python, "engine", head)

    (found,) = examine(CHECK, python).problems

    assert "/build/a/long/path/bin, which does not exist" in found.finding.summary


def test_programs_that_run_in_another_environment_are_a_warning(
    python: Path, tmp_path: Path, examine: Examine
) -> None:
    other = tmp_path / "other" / "bin" / "python"
    other.parent.mkdir(parents=True)
    other.symlink_to("/bin/true")
    _write_script(python, "engine", f"#!{other}")

    result = examine(CHECK, python)

    assert result.status is CheckStatus.WARNING


def test_relocatable_programs_and_those_without_python_are_ok(
    python: Path, examine: Examine
) -> None:
    _write_script(python, "engine", "#!/bin/sh\n'''exec' \"$(dirname -- \"$0\")\"/'python' \"$0\"")
    _write_script(python, "wrapper", "#!/bin/bash")
    _write_script(python, "tool", "#!/usr/bin/env python3")

    assert examine(CHECK, python).problems == ()


def test_a_program_whose_author_named_the_python_of_the_system_is_ok(
    python: Path, examine: Examine
) -> None:
    _write_script(python, "engine", f"#!{python}")
    _write_script(python, "gdb-hook", "#!/usr/bin/python99")
    _write_script(python, "legacy", "#!/usr/local/bin/python99 -u")

    result = examine(CHECK, python)

    assert result.problems == ()
    assert "3 programs" in result.summary


def test_the_remedy_leads_programs_and_activate_to_the_present_place(
    python: Path, examine: Examine
) -> None:
    _write_script(python, "engine", "#!/build/a.b/venv/bin/python")
    (python.parent / "activate").write_text("VIRTUAL_ENV='/build/a.b/venv'\nX=/build/a.b/venv2\n")
    (found,) = examine(CHECK, python).problems

    subprocess.run(["sh", "-c", str(found.finding.remedy)], check=True)

    assert examine(CHECK, python).status is CheckStatus.OK
    activate = f"VIRTUAL_ENV='{python.parent.parent}'\nX=/build/a.b/venv2\n"
    assert (python.parent / "activate").read_text() == activate
    assert python.is_symlink()
