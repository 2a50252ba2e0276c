import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ci_doctor.checks.check import CheckStatus
from ci_doctor.checks.outcome import verdict_of
from ci_doctor.checks.python import rules
from ci_doctor.checks.python.interpreters import CHECK
from ci_doctor.checks.running import DoctorRequest, run
from ci_doctor.checks.settings import DoctorSettings, Workload
from ci_doctor.model.rule import Rule
from ci_doctor.model.verdict import Verdict
from tests.support.checks import check_context
from tests.support.packages import VERSION, site_of
from tests.unit.checks.python.conftest import Examine


def test_a_sound_environment_is_ok_with_its_version(python: Path, examine: Examine) -> None:
    result = examine(CHECK, python)

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
    python.unlink()
    python.write_text("#!/bin/sh\necho 'error while loading shared libraries' >&2\nexit 127\n")
    python.chmod(0o755)


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
        (_dangle, rules.INTERPRETER_MISSING),
        (_remove, rules.INTERPRETER_MISSING),
        (_forbid, rules.INTERPRETER_MISSING),
        (_replace_by_a_failing_one, rules.INTERPRETER_BROKEN),
        (_lose_the_config, rules.VENV_WITHOUT_CONFIG),
        (_lose_the_base, rules.VENV_BASE_MISSING),
        (_keep_packages_of_another_version, rules.VENV_OF_ANOTHER_VERSION),
        (_lose_the_packages, rules.VENV_WITHOUT_PACKAGES),
        (_be_made_for_another_version, rules.VENV_OF_ANOTHER_VERSION),
    ],
)
def test_a_broken_environment_is_an_error_of_its_own_rule(
    breaking: Callable[[Path], None], rule: Rule, python: Path, examine: Examine
) -> None:
    breaking(python)

    result = examine(CHECK, python)

    assert [each.finding.rule for each in result.problems] == [rule.id]
    assert result.status is CheckStatus.ERROR
    assert f"venv --upgrade --without-pip {python.parent.parent}" in str(
        result.problems[0].finding.remedy
    )


def test_the_base_that_a_link_led_to_is_named(python: Path, examine: Examine) -> None:
    _dangle(python)

    result = examine(CHECK, python)

    assert "links to /opt/gone/bin/python3.11" in result.problems[0].finding.summary


def test_the_variable_that_keeps_python_from_starting_is_named(
    python: Path, examine: Examine
) -> None:
    result = examine(CHECK, python, PYTHONHOME="/opt/gone", PYTHONUNBUFFERED="1")

    (found,) = result.problems
    assert found.finding.rule == rules.VARIABLES_STOP_PYTHON.id
    assert "starts only without PYTHONHOME:" in found.finding.summary
    assert found.finding.remedy == "unset PYTHONHOME"


def test_an_interpreter_without_fixes_is_a_note(tmp_path: Path, examine: Examine) -> None:
    from ci_doctor.checks.python.stub.interpreter_probe import describe

    state = {**describe(), "version": "3.8.18", "full_version": "3.8.18", "path": []}
    # Debian marks its own as externally managed.
    state["stdlib"] = str(tmp_path)
    python = tmp_path / "old" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f"#!/bin/sh\ncat <<'END'\n{state!a}\nEND\n")
    python.chmod(0o755)

    result = examine(CHECK, python)

    assert [each.finding.rule for each in result.problems] == [rules.PYTHON_END_OF_LIFE.id]
    assert result.status is CheckStatus.OK


def test_an_interpreter_that_cannot_read_python_3_is_unknown_and_not_broken(
    tmp_path: Path, examine: Examine
) -> None:
    python = tmp_path / "old" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\necho "File $1\nSyntaxError: invalid syntax" >&2\nexit 1\n')
    python.chmod(0o755)

    result = examine(CHECK, python)

    assert result.status is CheckStatus.UNKNOWN
    assert "older than Python 3.6" in str(result.unknown)


def test_each_of_several_interpreters_is_named(
    python: Path, tmp_path: Path, examine: Examine
) -> None:
    missing = tmp_path / "other" / "bin" / "python"

    result = examine(CHECK, python, missing)

    assert f"{python} is Python" in result.summary
    assert f"{missing} does not start" in result.summary


def test_without_any_interpreter_a_strict_job_is_not_let_through(tmp_path: Path) -> None:
    context = check_context(tmp_path, settings=DoctorSettings(workload="correctness", strict=True))

    ran = run(DoctorRequest(checks=(CHECK,), strict=True), context)

    assert verdict_of(ran.finished, Workload.CORRECTNESS, strict=True) is Verdict.VOID


def test_a_configuration_without_a_home_says_so(python: Path, examine: Examine) -> None:
    (python.parent.parent / "pyvenv.cfg").write_text("")

    found = examine(CHECK, python).problems[0]

    assert found.finding.rule == rules.VENV_BASE_MISSING.id
    assert "names no home" in found.finding.summary


def test_a_start_file_that_ends_python_is_not_cured_by_another_link(
    python: Path, examine: Examine
) -> None:
    # Debian has a sitecustomize of its own, which would come first.
    (site_of(python) / "end.pth").write_text("import sys; sys.exit(4)\n")

    (found,) = examine(CHECK, python).problems

    assert found.finding.rule == rules.INTERPRETER_BROKEN.id
    assert "a file that each start runs ends it" in found.finding.summary
    assert found.finding.remedy == f"ci-doctor doctor starts --python {python}"


def test_the_remedy_keeps_the_packages_of_the_system(python: Path, examine: Examine) -> None:
    config = python.parent.parent / "pyvenv.cfg"
    config.write_text("home = /opt/gone/bin\ninclude-system-site-packages = true\n")

    found = examine(CHECK, python).problems[0]

    assert "--system-site-packages" in str(found.finding.remedy)
