# SPDX-License-Identifier: Apache-2.0
"""Entry points started for real, in fresh processes."""

import shlex
import sys
from pathlib import Path

import pytest

from ci_doctor.checks.check import CheckResult, CheckStatus
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.entry_points import probing
from ci_doctor.checks.entry_points.area import checks
from ci_doctor.checks.entry_points.entry_point import EntryCommand, importing
from ci_doctor.checks.entry_points.probing import probe_all
from ci_doctor.checks.running import run_checks
from ci_doctor.checks.settings import DoctorSettings
from ci_doctor.services.spec import ServiceSpec
from tests.support.checks import check_context

PYTHON = Path(sys.executable)


def results(context: CheckContext) -> dict[str, CheckResult]:
    ended = run_checks(checks(context.settings), context)
    return {each.check.id: each.result for each in ended}


def test_only_what_can_be_started_is_a_check() -> None:
    settings = DoctorSettings(workload="vllm", entry_points=["true"])

    assert [check.id for check in checks(DoctorSettings())] == ["imports/services"]
    assert [check.id for check in checks(settings)] == [
        "imports/workload",
        "imports/services",
        "imports/commands",
    ]


def test_commands_that_end_well_are_ok_and_others_are_errors(tmp_path: Path) -> None:
    settings = DoctorSettings(entry_points=["true", "sh -c 'echo no licence >&2; exit 3'"])

    result = results(check_context(tmp_path, settings=settings))["imports/commands"]

    (problem,) = result.problems
    assert result.status is CheckStatus.ERROR
    assert result.figures == {"started": 2, "failed": 1}
    assert problem.finding.summary.endswith("ends with exit code 3: no licence")


def test_a_command_that_cannot_be_started_is_unknown(tmp_path: Path) -> None:
    settings = DoctorSettings(entry_points=["/no/such/program"])

    result = results(check_context(tmp_path, settings=settings))["imports/commands"]

    assert result.unknown == "`/no/such/program` was not started: No such file or directory"


def test_a_package_that_the_interpreter_lacks_is_an_error(tmp_path: Path) -> None:
    settings = DoctorSettings(workload="sglang")

    result = results(check_context(tmp_path, settings=settings, pythons=[PYTHON]))

    finding = result["imports/workload"].problems[0].finding
    assert finding.rule == "doctor/entry-point-missing"
    assert finding.summary == f"{PYTHON} has no package `sglang`"


def test_a_service_is_imported_and_not_run(tmp_path: Path) -> None:
    (tmp_path / "served.py").write_text(
        "import pathlib\nif __name__ == '__main__':\n    pathlib.Path('ran').touch()\n"
    )
    spec = ServiceSpec(command=[sys.executable, "-m", "served", "{port}"])

    result = results(check_context(tmp_path, services={"web": spec}))["imports/services"]

    assert result.status is CheckStatus.OK
    assert result.summary.startswith("service web starts in ")
    assert not (tmp_path / "ran").exists()


def test_a_service_without_a_program_is_an_error(tmp_path: Path) -> None:
    spec = ServiceSpec(command="absent-program {port}")

    result = results(check_context(tmp_path, services={"web": spec}))["imports/services"]

    finding = result.problems[0].finding
    assert finding.summary == "service web cannot start: there is no program `absent-program`"


def test_a_console_script_does_not_import_from_its_directory(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("raise RuntimeError('the wrong module')\n")
    script = importing("script", PYTHON, "json", attribute="loads")
    module = importing("module", PYTHON, "json")

    of_script, of_module = probe_all([script, module], check_context(tmp_path))

    assert of_script.run is not None
    assert of_module.run is not None
    assert (of_script.run.exit_code, of_module.run.exit_code) == (0, 1)


def test_at_most_two_are_started_at_once(tmp_path: Path) -> None:
    # Each leaves a file while it runs, and counts the files.
    program = (
        "import os, pathlib, sys\n"
        "mine = pathlib.Path(f'running-{os.getpid()}'); mine.touch()\n"
        "print(len(list(pathlib.Path().glob('running-*'))))\n"
        "mine.unlink()"
    )
    words = (sys.executable, "-S", "-c", program)
    entries = [EntryCommand(name=str(number), words=words) for number in range(6)]

    probed = probe_all(entries, check_context(tmp_path))

    counts = [int(each.run.stdout) for each in probed if each.run is not None]
    assert len(counts) == len(entries)
    assert max(counts) <= 2


def test_one_that_hangs_is_unknown_with_its_line_and_the_rest_had_no_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probing, "TOGETHER_S", 1.0)
    (tmp_path / "hangs.py").write_text("import time\n\n\ntime.sleep(600)\n")
    command = shlex.join([sys.executable, "-m", "hangs"])
    settings = DoctorSettings(entry_points=[command, command, "true"])

    result = results(check_context(tmp_path, settings=settings))["imports/commands"]

    assert result.unknown is not None
    assert f'it was in File "{tmp_path}/hangs.py", line 4 in <module>' in result.unknown
    assert "were over before its turn" in result.unknown
