# SPDX-License-Identifier: Apache-2.0
"""What a check says: a generator of problems, and its summary."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ci_doctor.checks.check import (
    CheckResult,
    CheckStatus,
    Findings,
    UndeterminedError,
    check,
    problem,
)
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.processes import RunningProcess, job_of, read_processes, user_name
from ci_doctor.model.outcome import Rule, Severity
from ci_doctor.system.processes.process_table import Kin
from tests.support.checks import check_context

LITTER = Rule(id="doctor/litter", severity=Severity.WARNING, meaning="There is litter.")


@check("test/litter", title="litter")
def litter(_context: CheckContext) -> Findings:
    yield problem(LITTER, "paper")
    yield problem(LITTER, "glass")
    return CheckResult(summary="two things lie here", unknown="the cellar is locked")


def test_what_a_check_yields_are_its_problems(tmp_path: Path) -> None:
    result = litter.run(check_context(tmp_path))

    assert [each.finding.summary for each in result.problems] == ["paper", "glass"]
    assert (result.summary, result.unknown) == ("two things lie here", "the cellar is locked")


@pytest.mark.parametrize(
    "error", [UndeterminedError("the light is out"), OSError("the light is out")]
)
@pytest.mark.parametrize("found", [True, False])
def test_what_was_found_stands_although_the_rest_is_unknown(
    found: bool, error: Exception, tmp_path: Path
) -> None:
    @check("test/cellar", title="cellar")
    def cellar(_context: CheckContext) -> Findings:
        if found:
            yield problem(LITTER, "coal")
        raise error

    context = check_context(tmp_path)
    if not found:
        with pytest.raises(type(error)):
            cellar.run(context)
        return
    result = cellar.run(context)
    assert (result.unknown, result.status) == ("the light is out", CheckStatus.UNKNOWN)
    assert len(result.problems) == 1


SLEEPER = "import sys; print(flush=True); sys.stdin.read()"


def test_a_process_has_its_user_command_age_and_job(tmp_path: Path) -> None:
    context = check_context(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-c", SLEEPER, "vllm"],
        env={"BUILDKITE_JOB_ID": "0196-a"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as sleeper:
        assert sleeper.stdout is not None
        sleeper.stdout.readline()
        process = read_processes(context)[sleeper.pid]
        job = job_of(context, sleeper.pid)

    assert process.words == (sys.executable, "-c", SLEEPER, "vllm")
    assert (process.group, process.session) == (os.getpgid(0), os.getsid(0))
    assert (process.uid, process.kin.parent, job) == (os.geteuid(), os.getpid(), "0196-a")
    assert 0 <= process.age_s < 600


def described(*words: str) -> str:
    kin = Kin(pid=7, parent=1, started=0, state="S", threads=1, name="vllm")
    process = RunningProcess(kin=kin, group=7, session=7, uid=0, words=words, age_s=7200.0)
    return process.describe()


def test_of_a_long_command_line_the_first_words_are_shown_whole() -> None:
    line = described("vllm", "serve", "--token", "hf_" + "x" * 50, "more")

    assert line == "pid 7 of root, 2 h 00 min old: vllm serve --token …"


def test_a_process_without_a_command_line_has_its_name() -> None:
    assert described() == "pid 7 of root, 2 h 00 min old: vllm"


def test_a_user_without_a_name_is_a_number() -> None:
    assert user_name(3_999_999) == "uid 3999999"


def test_an_empty_proc_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc" / "uptime").write_text("12.5 20.0\n")

    with pytest.raises(UndeterminedError):
        read_processes(check_context(tmp_path, root=tmp_path))
