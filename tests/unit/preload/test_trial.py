# SPDX-License-Identifier: Apache-2.0
"""What the trial of a preload says, given how the child ended."""

from pathlib import Path

import pytest

from ci_doctor.model.finding import Severity
from ci_doctor.preload.interpreter import Target
from ci_doctor.preload.preload_rule import Preload
from ci_doctor.preload.trial import judge_trial
from ci_doctor.system.processes.limited_runs import SeparateRun

TARGET = Target(
    python=Path("/venv/bin/python"),
    version=(3, 12, 0),
    site_dir=Path("/s"),
    externally_managed=False,
    writable=True,
)


@pytest.mark.parametrize(
    ("exit_code", "stdout", "rule", "severity", "said"),
    [
        pytest.param(None, "", "preload/hangs", Severity.ERROR, "longer than 9 s", id="time-limit"),
        pytest.param(-11, "", "preload/crashes", Severity.ERROR, "SIGSEGV", id="signal"),
        pytest.param(-50, "", "preload/crashes", Severity.ERROR, "signal 50", id="signal-without-a-name"),
        pytest.param(3, "", "preload/crashes", Severity.ERROR, "exit code 3", id="os-exit"),
        pytest.param(0, "chatter", "preload/crashes", Severity.ERROR, "exit code 0", id="os-exit-0"),
        pytest.param(
            0, '\n{"is_installed": true, "error": "RuntimeError: no GPU"}\n', "preload/fails-now", Severity.WARNING, "no GPU",
            id="raises",
        ),
        pytest.param(
            0, '\n{"is_installed": false, "error": null}\n', "preload/not-installed", Severity.NOTE, "not installed", id="absent"
        ),
    ],
)  # fmt: skip
def test_trial_is_judged(
    exit_code: int | None, stdout: str, rule: str, severity: Severity, said: str
) -> None:
    answer = SeparateRun(exit_code=exit_code, stdout=stdout, stderr="last words\n", duration_s=0)
    finding = judge_trial(TARGET, [Preload(module="torch")], answer, 9.0)
    assert finding is not None
    assert (finding.rule, finding.severity) == (rule, severity)
    assert said in finding.summary
    assert "torch" in finding.summary
    assert not finding.summary.endswith(".")


def test_trial_that_went_well_is_no_finding() -> None:
    answer = SeparateRun(
        exit_code=0,
        stdout='chatter\n{"is_installed": true, "error": null}\n',
        stderr="a warning",
        duration_s=0,
    )
    assert judge_trial(TARGET, [Preload(module="torch")], answer, 9.0) is None
