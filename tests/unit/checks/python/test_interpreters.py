# SPDX-License-Identifier: Apache-2.0
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ci_doctor.checks.check import CheckStatus
from ci_doctor.checks.outcome import verdict_of
from ci_doctor.checks.python.interpreters import (
    INTERPRETER_BROKEN,
    INTERPRETER_MISSING,
    TOOLS_OF_TWO_INTERPRETERS,
    VARIABLES_STOP_PYTHON,
    VENV_BASE_MISSING,
    VENV_MOVED,
    VENV_OF_ANOTHER_VERSION,
    VENV_WITHOUT_CONFIG,
    VENV_WITHOUT_PACKAGES,
    interpreters,
    programs,
    scripts,
)
from ci_doctor.checks.running import DoctorRequest, run
from ci_doctor.checks.settings import DoctorSettings, Workload
from ci_doctor.machine.interpreters import read_state
from ci_doctor.model.outcome import Rule, Verdict
from tests.support.checks import check_context
from tests.support.packages import VERSION, copy_of, site_of, write_script
from tests.unit.checks.python.conftest import Examine


def test_a_sound_environment_is_ok_with_its_version_whatever_a_start_file_prints(
    python: Path, examine: Examine
) -> None:
    line = "import atexit; atexit.register(print, 'bye')\n"
    (site_of(python) / "talk.pth").write_text(line)

    result = examine(interpreters, python)

    assert result.status is CheckStatus.OK
    assert f"{python} is Python {VERSION}." in result.summary


def _dangle(python: Path) -> None:
    python.unlink()
    python.symlink_to("/opt/gone/bin/python3.11")


def _remove(python: Path) -> None:
    python.unlink()


def _forbid(python: Path) -> None:
    python.unlink()
    python.write_text("#!/bin/sh\n")
    python.chmod(0o644)


def _replace_by_a_failing_one(python: Path) -> None:
    write_script(python, "echo 'error while loading shared libraries' >&2\nexit 127")


def _lose_the_config(python: Path) -> None:
    (python.parent / "activate").write_text("# as venv has it\n")
    (python.parent.parent / "pyvenv.cfg").unlink()


def _lose_the_base(python: Path) -> None:
    config = python.parent.parent / "pyvenv.cfg"
    lines = config.read_text().splitlines()
    kept = [line for line in lines if not line.startswith("home")]
    config.write_text("\n".join(["home = /opt/gone/bin", *kept]))


def _keep_packages_of_another_version(python: Path) -> None:
    library = python.parent.parent / "lib"
    (library / f"python{VERSION}").rename(library / "python3.8")


def _lose_the_packages(python: Path) -> None:
    shutil.rmtree(site_of(python))


def _be_made_for_another_version(python: Path) -> None:
    config = python.parent.parent / "pyvenv.cfg"
    lines = config.read_text().splitlines()
    kept = [line for line in lines if not line.startswith("version")]
    # As uv and virtualenv write it.
    config.write_text("\n".join([*kept, "version_info = 3.8.1"]))


@pytest.mark.parametrize(
    ("breaking", "rule"),
    [
        (_dangle, INTERPRETER_MISSING),
        (_remove, INTERPRETER_MISSING),
        (_forbid, INTERPRETER_MISSING),
        (_replace_by_a_failing_one, INTERPRETER_BROKEN),
        (_lose_the_config, VENV_WITHOUT_CONFIG),
        (_lose_the_base, VENV_BASE_MISSING),
        (_keep_packages_of_another_version, VENV_OF_ANOTHER_VERSION),
        (_lose_the_packages, VENV_WITHOUT_PACKAGES),
        (_be_made_for_another_version, VENV_OF_ANOTHER_VERSION),
    ],
)
def test_a_broken_environment_is_an_error_of_its_own_rule(
    breaking: Callable[[Path], None], rule: Rule, python: Path, examine: Examine
) -> None:
    breaking(python)

    result = examine(interpreters, python)

    assert [each.finding.rule for each in result.problems] == [rule.id]
    assert result.status is CheckStatus.ERROR
    assert f"venv --upgrade --without-pip {python.parent.parent}" in str(
        result.problems[0].finding.remedy
    )


def test_each_of_several_interpreters_is_named_with_the_base_that_a_link_led_to(
    python: Path, tmp_path: Path, examine: Examine
) -> None:
    broken = tmp_path / "other" / "bin" / "python"
    broken.parent.mkdir(parents=True)
    broken.symlink_to("/opt/gone/bin/python3.11")

    result = examine(interpreters, python, broken)

    assert f"{python} is Python" in result.summary
    assert f"{broken} does not start" in result.summary
    assert "links to /opt/gone/bin/python3.11" in result.problems[0].finding.summary


def test_the_variable_that_keeps_python_from_starting_is_named(
    python: Path, examine: Examine
) -> None:
    result = examine(interpreters, python, PYTHONHOME="/opt/gone", PYTHONUNBUFFERED="1")

    (found,) = result.problems
    assert found.finding.rule == VARIABLES_STOP_PYTHON.id
    assert "starts only without PYTHONHOME:" in found.finding.summary
    assert found.finding.remedy == "unset PYTHONHOME"


def test_an_interpreter_that_cannot_read_python_3_is_unknown_and_not_broken(
    tmp_path: Path, examine: Examine
) -> None:
    text = 'echo "File $1\nSyntaxError: invalid syntax" >&2\nexit 1'
    python = write_script(tmp_path / "old" / "bin" / "python", text)

    result = examine(interpreters, python)

    assert result.status is CheckStatus.UNKNOWN
    assert "older than Python 3.6" in str(result.unknown)


def test_without_any_interpreter_a_strict_job_is_not_let_through(tmp_path: Path) -> None:
    context = check_context(tmp_path, settings=DoctorSettings(workload="correctness", strict=True))

    ran = run(DoctorRequest(checks=(interpreters,), strict=True), context)

    assert verdict_of(ran.finished, Workload.CORRECTNESS, strict=True) is Verdict.VOID


def test_a_configuration_without_a_home_says_so_and_the_remedy_keeps_the_systems_packages(
    python: Path, examine: Examine
) -> None:
    config = python.parent.parent / "pyvenv.cfg"
    config.write_text("include-system-site-packages = true\n")

    found = examine(interpreters, python).problems[0]

    assert found.finding.rule == VENV_BASE_MISSING.id
    assert "names no home" in found.finding.summary
    assert "--system-site-packages" in str(found.finding.remedy)


def test_a_start_file_that_ends_python_is_not_cured_by_another_link(
    python: Path, examine: Examine
) -> None:
    # Debian has a sitecustomize of its own, which would come first.
    (site_of(python) / "end.pth").write_text("import sys; sys.exit(4)\n")

    (found,) = examine(interpreters, python).problems

    assert found.finding.rule == INTERPRETER_BROKEN.id
    assert "a file that each start runs ends it" in found.finding.summary
    assert found.finding.remedy == f"ci-doctor doctor starts --python {python}"


def _write_script(python: Path, name: str, head: str) -> None:
    (python.parent / name).write_text(f"{head}\nprint('hello')\n")


def test_programs_that_run_beside_them_in_the_system_or_without_python_are_ok(
    python: Path, examine: Examine
) -> None:
    for name, head in {
        "engine": f"#!{python}",
        "other": f"#!{python.parent}/python3",
        "relocatable": "#!/bin/sh\n'''exec' \"$(dirname -- \"$0\")\"/'python' \"$0\"",
        "wrapper": "#!/bin/bash",
        "tool": "#!/usr/bin/env python3",
        "gdb-hook": "#!/usr/bin/python99",
        "legacy": "#!/usr/local/bin/python99 -u",
    }.items():
        _write_script(python, name, head)

    result = examine(scripts, python)

    assert (result.status, result.problems) == (CheckStatus.OK, ())
    assert re.search(r"\d programs", result.summary)


def test_programs_of_a_moved_environment_are_an_error(python: Path, examine: Examine) -> None:
    _write_script(python, "engine", "#!/build/venv/bin/python3.11")
    _write_script(python, "other", "#!/build/venv/bin/python")

    (found,) = examine(scripts, python).problems

    assert found.finding.rule == VENV_MOVED.id
    assert found.finding.severity == "error"
    assert "2 programs" in found.finding.summary
    assert "/build/venv/bin, which does not exist: engine, other" in found.finding.summary


def test_a_long_first_line_is_understood(python: Path, examine: Examine) -> None:
    head = "#!/bin/sh\n'''exec' /build/a/long/path/bin/python \"$0\" \"$@\"\n' '''"
    _write_script(python, "engine", head)

    (found,) = examine(scripts, python).problems

    assert "/build/a/long/path/bin, which does not exist" in found.finding.summary


def test_programs_that_run_in_another_environment_are_a_warning(
    python: Path, tmp_path: Path, examine: Examine
) -> None:
    other = tmp_path / "other" / "bin" / "python"
    other.parent.mkdir(parents=True)
    other.symlink_to("/bin/true")
    _write_script(python, "engine", f"#!{other}")

    result = examine(scripts, python)

    assert result.status is CheckStatus.WARNING


def _write_program(folder: Path, name: str, python: Path) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!{python}\n")
    (folder / name).chmod(0o755)


def test_programs_of_one_environment_are_ok_and_a_shim_says_nothing(
    python: Path, tmp_path: Path, examine: Examine
) -> None:
    _write_program(python.parent, "pytest", python)
    _write_program(tmp_path / "bin", "python3", Path("/bin/bash"))
    # Refused by the kernel for root, too.
    refused = "/" + "x" * 300

    result = examine(programs, python, PATH=f"{refused}:{python.parent}", PYTHONPATH=refused)
    shim = examine(programs, python, PATH=f"{tmp_path}/bin")

    assert result.status is CheckStatus.OK
    assert f"pytest of {python.parent.parent}" in result.summary
    assert shim.problems == ()
    assert shim.summary == "no program on PATH names its interpreter"


def test_a_program_of_another_environment_is_a_warning(
    python: Path, sound_venv: Path, tmp_path: Path, examine: Examine
) -> None:
    other = copy_of(sound_venv, tmp_path / "other")
    _write_program(tmp_path / "bin", "pytest", other)

    result = examine(programs, python, PATH=f"{tmp_path}/bin:{python.parent}")

    (found,) = result.problems
    assert found.finding.rule == TOOLS_OF_TWO_INTERPRETERS.id
    assert found.finding.severity == "warning"
    assert f"but pytest of {tmp_path}/other" in found.finding.summary


def test_an_active_environment_that_is_not_on_path_is_a_warning(
    python: Path, sound_venv: Path, tmp_path: Path, examine: Examine
) -> None:
    other = copy_of(sound_venv, tmp_path / "other")

    result = examine(
        programs, python, PATH=str(python.parent), VIRTUAL_ENV=str(other.parent.parent)
    )

    assert f"VIRTUAL_ENV is {tmp_path}/other" in result.problems[0].finding.summary


@pytest.mark.parametrize("text", ["", "hello", "{[]: 1}", "{", "[1]", "{'version': 3}"])
def test_what_is_no_state_is_none(text: str) -> None:
    assert read_state(text) is None
