# SPDX-License-Identifier: Apache-2.0
"""Checks side by side, each with a deadline, and the changes of `--fix`."""

import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil
import pytest

from ci_doctor.checks.check import (
    CheckResult,
    CheckStatus,
    DoctorCheck,
    FinishedCheck,
    Fix,
    UndeterminedError,
    problem,
)
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.outcome import DoctorRun, outcome_of
from ci_doctor.checks.running import DoctorRequest, fix, planned, run, run_checks
from ci_doctor.errors import InfraError, UsageError
from ci_doctor.model.outcome import Rule, Severity, Verdict
from tests.support.checks import check_context

SLEEPS = (sys.executable, "-S", "-c", "import time; time.sleep(600)")


def check(
    name: str, run: Callable[[CheckContext], CheckResult], *, deadline_s: float = 60.0
) -> DoctorCheck:
    return DoctorCheck(id=f"test/{name}", title=name, run=run, deadline_s=deadline_s)


def fine(_context: CheckContext) -> CheckResult:
    return CheckResult(summary="fine")


def wait_for_threads() -> None:
    """Wait for the threads of late checks, whose programs are killed by now."""
    for thread in threading.enumerate():
        if thread.name.startswith("test/"):
            thread.join(60)


def finished(context: CheckContext, *checks: DoctorCheck) -> dict[str, FinishedCheck]:
    return {each.check.title: each for each in run_checks(checks, context)}


def test_a_check_that_hangs_is_unknown_and_the_others_end(tmp_path: Path) -> None:
    release = threading.Event()

    def hangs(_context: CheckContext) -> CheckResult:
        release.wait()
        return CheckResult(summary="late")

    context = check_context(tmp_path)
    ended = finished(context, check("hangs", hangs, deadline_s=0.05), check("fine", fine))
    release.set()
    wait_for_threads()

    assert ended["fine"].result.status is CheckStatus.OK
    assert ended["hangs"].result.unknown == "no answer within 0.05 s"
    assert ended["hangs"].duration_s is None


def one_that_asks_and_one_that_looks(deadline_s: float = 60.0) -> list[DoctorCheck]:
    """A check that waits for a program, and one whose summary is the pid of that program."""
    asked = threading.Event()

    def asks(context: CheckContext) -> CheckResult:
        asked.set()
        context.run(SLEEPS)
        return CheckResult(summary="late")

    def looks(context: CheckContext) -> CheckResult:
        asked.wait()
        while not context.programs.pids():
            pass
        return CheckResult(summary=str(context.programs.pids()[0]))

    return [check("asks", asks, deadline_s=deadline_s), check("looks", looks)]


def test_a_late_check_names_the_program_it_waited_for_and_the_program_is_killed(
    tmp_path: Path,
) -> None:
    ended = finished(check_context(tmp_path), *one_that_asks_and_one_that_looks(deadline_s=1.0))

    assert "time.sleep(600)" in (ended["asks"].result.unknown or "")
    assert "was still running" in (ended["asks"].result.unknown or "")
    wait_for_threads()
    assert not psutil.pid_exists(int(ended["looks"].result.summary))


def test_a_check_that_waits_for_the_reading_of_another_names_its_program(tmp_path: Path) -> None:
    def read(context: CheckContext) -> str:
        return context.run(SLEEPS).stdout

    def asks(context: CheckContext) -> CheckResult:
        return CheckResult(summary=context.shared(read))

    checks = [check(name, asks, deadline_s=1.0) for name in ("first", "second")]
    ended = finished(check_context(tmp_path), *checks)

    wait_for_threads()
    for each in ended.values():
        assert "time.sleep(600)" in (each.result.unknown or "")


def test_what_several_checks_read_is_read_once(tmp_path: Path) -> None:
    reads: list[int] = []

    def read(_context: CheckContext) -> int:
        reads.append(1)
        return len(reads)

    def asks(context: CheckContext) -> CheckResult:
        return CheckResult(summary=str(context.shared(read)))

    checks = [check(str(number), asks) for number in range(8)]
    ended = finished(check_context(tmp_path), *checks)

    assert [each.result.summary for each in ended.values()] == ["1"] * 8
    assert len(reads) == 1


@pytest.mark.parametrize(
    ("error", "unknown"),
    [
        (UndeterminedError("nobody knows"), "nobody knows"),
        (MemoryError(), "no memory is left for this check"),
        (
            FileNotFoundError(2, "No such file or directory", "/a/b"),
            "/a/b: No such file or directory",
        ),
        (InfraError("the interpreter does not answer"), "the interpreter does not answer"),
    ],
    ids=["undetermined", "memory", "file", "a room's"],
)
def test_what_a_reading_raises_is_the_reason_why_each_check_is_unknown(
    error: Exception, unknown: str, tmp_path: Path
) -> None:
    def read(_context: CheckContext) -> int:
        raise error

    def asks(context: CheckContext) -> CheckResult:
        return CheckResult(summary=str(context.shared(read)))

    ended = finished(check_context(tmp_path), check("one", asks), check("two", asks))

    results = [each.result for each in ended.values()]
    assert [(each.unknown, each.problems) for each in results] == [(unknown, ())] * 2


def test_whoever_waits_hears_which_checks_still_run(tmp_path: Path) -> None:
    heard = threading.Event()
    waited_for: list[list[str]] = []

    def hangs(_context: CheckContext) -> CheckResult:
        heard.wait()
        return CheckResult(summary="heard")

    def on_wait(pending: Sequence[DoctorCheck]) -> None:
        waited_for.append([each.id for each in pending])
        heard.set()

    checks = [check("hangs", hangs), check("fine", fine)]
    ended = list(run_checks(checks, check_context(tmp_path), on_wait))

    assert waited_for[0] == ["test/hangs"]
    assert len(ended) == len(checks)


def test_a_check_that_crashes_is_unknown_with_its_traceback(tmp_path: Path) -> None:
    def crashes(_context: CheckContext) -> CheckResult:
        return CheckResult(summary=str(1 // 0))

    ended = finished(check_context(tmp_path), check("crashes", crashes), check("fine", fine))

    result = ended["crashes"].result
    finding = result.problems[0].finding
    assert result.status is CheckStatus.UNKNOWN
    assert finding.rule == "doctor/check-crashed"
    assert "ZeroDivisionError" in finding.summary
    assert "in crashes" in (finding.evidence[0].excerpt or "")
    assert ended["fine"].result.status is CheckStatus.OK


def test_a_caller_that_stops_early_leaves_no_program(tmp_path: Path) -> None:
    running = run_checks(one_that_asks_and_one_that_looks(), check_context(tmp_path))
    pid = int(next(running).result.summary)
    running.close()

    wait_for_threads()
    assert not psutil.pid_exists(pid)


LITTER = Rule(id="doctor/litter", severity=Severity.ERROR, meaning="There is litter.")


def litter_check(path: Path, apply: Callable[[], None], words: str = "remove it") -> DoctorCheck:
    """A check that fails as long as `path` is there."""

    def look(_context: CheckContext) -> CheckResult:
        if not path.exists():
            return CheckResult(summary="clean")
        found = problem(LITTER, "litter lies here").with_fix(Fix(words=words, apply=apply))
        return CheckResult(summary="litter", problems=(found,))

    return DoctorCheck(id="test/litter", title="litter", run=look)


def first_look(check: DoctorCheck, context: CheckContext) -> DoctorRun:
    return run(DoctorRequest(checks=(check,)), context)


def test_a_fixed_problem_is_gone_and_the_change_is_reported(tmp_path: Path) -> None:
    litter = tmp_path / "litter"
    litter.touch()
    context = check_context(tmp_path)
    shown: list[tuple[str, bool]] = []
    ran = first_look(litter_check(litter, litter.unlink), context)

    after = fix(ran, context, lambda words: shown.append((words, litter.exists())))

    outcome = outcome_of(after)
    assert shown == [("remove it", True)]
    assert (outcome.verdict, outcome.findings) == (Verdict.PASS, ())
    assert [table.title for table in outcome.tables] == ["Fixed"]


def test_a_change_that_cures_nothing_leaves_the_problem_and_one_that_fails_says_why(
    tmp_path: Path,
) -> None:
    litter = tmp_path / "litter"
    litter.touch()
    context = check_context(tmp_path)

    after = fix(first_look(litter_check(litter, lambda: None), context), context, lambda _: None)
    refused = litter_check(litter, (tmp_path / "gone").unlink)
    failed = fix(first_look(refused, context), context, lambda _: None)

    assert outcome_of(after).verdict is Verdict.INFRA
    assert failed.not_fixed == {"remove it": "No such file or directory"}


def test_a_change_that_fails_never_makes_the_verdict_better(tmp_path: Path) -> None:
    litter = tmp_path / "litter"
    litter.touch()
    context = check_context(tmp_path)

    def fail_after_the_work() -> None:
        litter.unlink()
        raise UsageError("cannot say so")

    ran = first_look(litter_check(litter, fail_after_the_work), context)

    after = fix(ran, context, lambda _: None)

    assert (after.fixed, after.not_fixed) == ((), {"remove it": "cannot say so"})
    assert after.finished[0].result.status is CheckStatus.ERROR
    assert "Not fixed" in [table.title for table in outcome_of(after).tables]


def test_a_dry_run_says_what_it_would_change_and_changes_nothing(tmp_path: Path) -> None:
    litter = tmp_path / "litter"
    litter.touch()
    ran = first_look(litter_check(litter, litter.unlink), check_context(tmp_path))

    after = planned(ran)

    assert (after.would_fix, after.fixed, litter.exists()) == (("remove it",), (), True)
    assert outcome_of(after).verdict is Verdict.INFRA
