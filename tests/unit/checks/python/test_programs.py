from pathlib import Path

from ci_doctor.checks.python.programs import CHECK
from ci_doctor.checks.python.rules import TOOLS_OF_TWO_INTERPRETERS

from ci_doctor.checks.check import CheckStatus
from tests.support.packages import copy_of
from tests.unit.checks.python.conftest import Examine


def _write_program(folder: Path, name: str, python: Path) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!{python}\n")
    (folder / name).chmod(0o755)


def test_programs_of_one_environment_are_ok(python: Path, examine: Examine) -> None:
    _write_program(python.parent, "pytest", python)

    result = examine(CHECK, python, PATH=str(python.parent))

    assert result.status is CheckStatus.OK
    assert f"pytest of {python.parent.parent}" in result.summary


def test_a_program_of_another_environment_is_a_warning(
    python: Path, sound_venv: Path, tmp_path: Path, examine: Examine
) -> None:
    other = copy_of(sound_venv, tmp_path / "other")
    _write_program(tmp_path / "bin", "pytest", other)

    result = examine(CHECK, python, PATH=f"{tmp_path}/bin:{python.parent}")

    (found,) = result.problems
    assert found.finding.rule == TOOLS_OF_TWO_INTERPRETERS.id
    assert found.finding.severity == "warning"
    assert f"but pytest of {tmp_path}/other" in found.finding.summary


def test_an_active_environment_that_is_not_on_path_is_a_warning(
    python: Path, sound_venv: Path, tmp_path: Path, examine: Examine
) -> None:
    other = copy_of(sound_venv, tmp_path / "other")

    result = examine(CHECK, python, PATH=str(python.parent), VIRTUAL_ENV=str(other.parent.parent))

    assert f"VIRTUAL_ENV is {tmp_path}/other" in result.problems[0].finding.summary


def test_shims_and_absent_programs_say_nothing(
    python: Path, tmp_path: Path, examine: Examine
) -> None:
    _write_program(tmp_path / "bin", "python3", Path("/bin/bash"))

    result = examine(CHECK, python, PATH=f"{tmp_path}/bin")

    assert result.problems == ()
    assert result.summary == "no program on PATH names its interpreter"


def test_a_program_that_the_environment_lacks_is_a_note(
    python: Path, sound_venv: Path, tmp_path: Path, examine: Examine
) -> None:
    other = copy_of(sound_venv, tmp_path / "other")
    _write_program(tmp_path / "bin", "pytest", other)

    (found,) = examine(CHECK, python, PATH=f"{python.parent}:{tmp_path}/bin/").problems

    assert found.finding.severity == "note"
    assert (
        f"has no pytest of its own; on PATH comes that of {tmp_path}/other" in found.finding.summary
    )


def test_entries_that_cannot_be_looked_into_are_passed_over(python: Path, examine: Examine) -> None:
    # Refused by the kernel for root, too.
    refused = "/" + "x" * 300

    result = examine(CHECK, python, PATH=f"{refused}:{python.parent}", PYTHONPATH=refused)

    assert f"python3 of {python.parent.parent}" in result.summary
