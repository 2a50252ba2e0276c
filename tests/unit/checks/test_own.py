# SPDX-License-Identifier: Apache-2.0
"""What the end of a repository's own check says."""

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from ci_doctor.checks.all_checks import own_check
from ci_doctor.checks.check import CheckResult, CheckStatus, Fault, UndeterminedError
from ci_doctor.checks.settings import OwnCheck, Workload
from ci_doctor.model.outcome import RemedyKind, Severity
from tests.support.checks import check_context


def result(
    script: str,
    tmp_path: Path,
    keys: Mapping[str, str] = {},
    environ: Mapping[str, str] | None = None,
) -> CheckResult:
    """The result of the check `mine`, a line of sh."""
    own = OwnCheck(command=["sh", "-c", script], **keys)  # type: ignore[arg-type]
    return own_check("mine", own).run(check_context(tmp_path, environ=environ))


def test_exit_status_0_is_ok_with_the_last_line_as_the_summary(tmp_path: Path) -> None:
    ended = result("echo looking; echo 3 GiB free.; echo; echo noise >&2", tmp_path)

    assert (ended.status, ended.summary) == (CheckStatus.OK, "3 GiB free")


@pytest.mark.parametrize(
    ("status", "keys", "severity", "fault"),
    [
        (1, {}, Severity.ERROR, Fault.ENVIRONMENT),
        (1, {"fault": "repository"}, Severity.ERROR, Fault.REPOSITORY),
        (9, {"severity": "warning"}, Severity.WARNING, Fault.ENVIRONMENT),
        # It says by itself that the machine is at fault.
        (75, {"fault": "repository"}, Severity.ERROR, Fault.ENVIRONMENT),
        (75, {"severity": "warning"}, Severity.ERROR, Fault.ENVIRONMENT),
        # No signal: some programs end so.
        (255, {}, Severity.ERROR, Fault.ENVIRONMENT),
    ],
)
def test_another_exit_status_is_a_problem_of_the_configured_kind(
    status: int, keys: dict[str, str], severity: Severity, fault: Fault, tmp_path: Path
) -> None:
    ended = result(f"echo it is full; echo df says so >&2; exit {status}", tmp_path, keys)

    (problem,) = ended.problems
    assert (problem.finding.severity, problem.fault) == (severity, fault)
    assert problem.finding.summary == "mine: it is full"
    assert problem.finding.evidence[0].excerpt == "df says so"


def test_a_failure_without_a_word_names_the_exit_status(tmp_path: Path) -> None:
    assert result("exit 4", tmp_path).summary == "mine: exit status 4"


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo no driver to ask; exit 86", "no driver to ask"),
        ("exit 126", "`sh -c 'exit 126'`: exit status 126: it cannot be executed"),
        ("exit 127", "`sh -c 'exit 127'`: exit status 127: it was not found"),
        ("exit 137", "`sh -c 'exit 137'`: it was ended by SIGKILL"),
        ("kill -TERM $$", "`sh -c 'kill -TERM $$'`: it was ended by SIGTERM"),
    ],
)
def test_what_says_nothing_is_unknown(script: str, reason: str, tmp_path: Path) -> None:
    ended = result(script, tmp_path)

    assert (ended.status, ended.unknown) == (CheckStatus.UNKNOWN, reason)


def test_a_command_that_is_not_there_is_unknown(tmp_path: Path) -> None:
    own = OwnCheck(command="no-such-program --flag")

    with pytest.raises(UndeterminedError, match="`no-such-program` cannot be run: No such file"):
        own_check("mine", own).run(check_context(tmp_path))


def test_the_remedy_is_the_configured_one_or_else_the_command(tmp_path: Path) -> None:
    named = result("exit 1", tmp_path, {"remedy": "Ask the team."}).problems[0].finding
    bare = result("exit 1", tmp_path).problems[0].finding

    assert (named.remedy, named.remedy_kind) == ("Ask the team.", RemedyKind.ADVICE)
    assert (bare.remedy, bare.remedy_kind) == ("sh -c 'exit 1'", RemedyKind.COMMAND)


def test_a_line_is_cut_only_after_secrets_are_taken_out(tmp_path: Path) -> None:
    secret = "s3cr3t-" * 8
    # The cut would leave a half of it, which nobody would recognise.
    padding = "x" * 270
    script = f"echo {padding} $MY_TOKEN >&2; echo $MY_TOKEN; exit 1"

    ended = result(script, tmp_path, environ={"PATH": "/usr/bin:/bin", "MY_TOKEN": secret})

    assert "s3cr3t" not in repr(ended)


def test_only_the_last_lines_of_stderr_are_evidence(tmp_path: Path) -> None:
    ended = result("for i in 1 2 3 4 5 6 7 8 9 10; do echo line $i >&2; done; exit 1", tmp_path)

    excerpt = ended.problems[0].finding.evidence[0].excerpt or ""
    assert excerpt.splitlines()[0] == "line 3"
    assert excerpt.splitlines()[-1] == "line 10"


def test_its_deadline_its_title_and_what_needs_it_are_those_of_the_configuration() -> None:
    command = [sys.executable, "a b"]
    check = own_check("mine", OwnCheck(command=command, timeout="90s", needed_for=["vllm"]))

    assert (check.id, check.title) == ("own/mine", f"`{shlex.join(command)}`")
    assert (check.limit_s, check.needed_for) == (90.0, frozenset({Workload.VLLM}))
