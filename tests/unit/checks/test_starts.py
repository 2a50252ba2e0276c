# SPDX-License-Identifier: Apache-2.0
"""What runs at each start of a real interpreter, as the checks of the area say it."""

import os
import sys
import sysconfig
from pathlib import Path

import pytest

from ci_doctor.checks.all_checks import all_checks
from ci_doctor.checks.check import CheckResult, CheckStatus
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.running import run_checks
from ci_doctor.checks.settings import DoctorSettings
from ci_doctor.model.outcome import RemedyKind
from ci_doctor.preload.install import install_shims
from ci_doctor.preload.preload_rule import parse_rule
from tests.integration.preload_venvs import Venv
from tests.support.checks import check_context

CHECKS = [check for check in all_checks(DoctorSettings()) if check.area == "starts"]


@pytest.fixture
def interpreter(tmp_path: Path) -> Venv:
    return Venv(Path(sys.executable), tmp_path / "v")


def context(interpreter: Venv, tmp_path: Path, **environ: str) -> CheckContext:
    """A job with this interpreter, and without what the test's own environment brings."""
    path = {"PATH": os.environ["PATH"]}
    return check_context(tmp_path, environ={**path, **environ}, pythons=[interpreter.python])


def results(context: CheckContext) -> dict[str, CheckResult]:
    """The result of each check of the area, by the second part of its id."""
    ended = run_checks(CHECKS, context)
    return {each.check.id.removeprefix("starts/"): each.result for each in ended}


def rules(result: CheckResult) -> list[str]:
    return [problem.finding.rule for problem in result.problems]


def test_an_ordinary_interpreter_is_ok(interpreter: Venv, tmp_path: Path) -> None:
    (interpreter.site_dir / "light.pth").write_text("import sys; sys.light = 1\n")
    put_sitecustomize(interpreter, "print('telemetry', file=__import__('sys').stderr)\n")

    ended = results(context(interpreter, tmp_path))

    assert {name: result.status for name, result in ended.items()} == dict.fromkeys(
        ("failing", "preload-shim"), CheckStatus.OK
    )


def test_a_sitecustomize_that_ends_python_is_an_error_that_names_it(
    interpreter: Venv, tmp_path: Path
) -> None:
    file = put_sitecustomize(
        interpreter, "import sys; print('no licence', file=sys.stderr); raise SystemExit(3)\n"
    )

    ended = results(context(interpreter, tmp_path))

    finding = ended["failing"].problems[0].finding
    assert (ended["failing"].status, finding.rule) == (
        CheckStatus.ERROR,
        "doctor/start-file-ends-python",
    )
    assert finding.summary == f"{file} ends every start of {interpreter.python}"
    assert finding.evidence[0].excerpt == "no licence"
    assert (finding.remedy, finding.remedy_kind) == (
        f"mv {file} {file}.aside",
        RemedyKind.COMMAND,
    )
    # Nothing else can be known of an interpreter that does not start.
    assert ended["preload-shim"].status is CheckStatus.UNKNOWN


def test_a_sitecustomize_of_the_jobs_pythonpath_is_watched_too(
    interpreter: Venv, tmp_path: Path
) -> None:
    brought = tmp_path / "brought"
    brought.mkdir()
    (brought / "sitecustomize.py").write_text("raise ValueError('tracing')\n")

    ended = results(context(interpreter, tmp_path, PYTHONPATH=str(brought)))

    assert rules(ended["failing"]) == ["doctor/start-file-fails"]


def test_a_start_that_hangs_is_unknown_and_names_the_file(
    interpreter: Venv, tmp_path: Path
) -> None:
    file = put_sitecustomize(interpreter, "import time; time.sleep(600)\n")

    result = results(context(interpreter, tmp_path))["failing"]

    assert result.unknown == (
        f"{interpreter.python} did not start within 1.2 s, {file} was running"
    )


def test_a_path_file_that_imports_something_missing_is_a_warning_with_the_error(
    interpreter: Venv, tmp_path: Path
) -> None:
    file = interpreter.site_dir / "__editable__.gone.pth"
    file.write_text("import gone_finder; gone_finder.install()\n")

    result = results(context(interpreter, tmp_path))["failing"]

    (problem,) = result.problems
    assert result.status is CheckStatus.WARNING
    assert problem.finding.rule == "doctor/start-file-fails"
    assert problem.finding.summary == (
        f"{file} fails at every start of {interpreter.python}: "
        "ModuleNotFoundError: No module named 'gone_finder'"
    )


def test_a_sitecustomize_that_raises_is_a_warning(interpreter: Venv, tmp_path: Path) -> None:
    put_sitecustomize(interpreter, "raise ValueError('set ACME_HOME')\n")

    result = results(context(interpreter, tmp_path))["failing"]

    assert rules(result) == ["doctor/start-file-fails"]
    assert "ValueError: set ACME_HOME" in result.problems[0].finding.summary


def test_a_broken_shim_is_a_warning_with_the_command_that_repairs_it(
    interpreter: Venv, tmp_path: Path
) -> None:
    install_shims([interpreter.python], [parse_rule("json.tool=json:loads")], dry_run=False)
    whole = results(context(interpreter, tmp_path))["preload-shim"]
    (interpreter.site_dir / "ci_doctor_preload.pth").unlink()

    broken = results(context(interpreter, tmp_path))["preload-shim"]

    assert (whole.status, whole.summary) == (CheckStatus.OK, "1 preload shim, 0 of them broken")
    finding = broken.problems[0].finding
    assert finding.rule == "doctor/preload-shim-broken"
    assert finding.summary.endswith("ci_doctor_preload.pth is absent")
    assert finding.remedy == (
        f"ci-doctor preload install --python {interpreter.python} --rule json.tool=json:loads"
    )


def put_sitecustomize(interpreter: Venv, text: str) -> Path:
    """Write the sitecustomize that runs; skips if the interpreter brings one, as Debian's does."""
    if (Path(sysconfig.get_path("stdlib")) / "sitecustomize.py").exists():
        pytest.skip("this Python brings a sitecustomize of its own")
    file = interpreter.site_dir / "sitecustomize.py"
    file.write_text(text)
    return file
