"""`--fix`: changes are shown, made, and looked at again."""

from collections.abc import Callable
from pathlib import Path

from ci_doctor.checks.check import CheckResult, CheckStatus, DoctorCheck, Fix, problem
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.outcome import DoctorRun, outcome_of
from ci_doctor.checks.running import DoctorRequest, fix, planned, run
from ci_doctor.errors import UsageError
from ci_doctor.model.finding import Severity
from ci_doctor.model.rule import Rule
from ci_doctor.model.verdict import Verdict
from tests.support.checks import check_context

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


def test_a_change_that_cures_nothing_leaves_the_problem(tmp_path: Path) -> None:
    litter = tmp_path / "litter"
    litter.touch()
    context = check_context(tmp_path)
    ran = first_look(litter_check(litter, lambda: None), context)

    after = fix(ran, context, lambda _: None)

    assert outcome_of(after).verdict is Verdict.INFRA


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


def test_a_system_error_is_a_reason(tmp_path: Path) -> None:
    context = check_context(tmp_path)
    ran = first_look(litter_check(tmp_path, (tmp_path / "gone").unlink), context)

    after = fix(ran, context, lambda _: None)

    assert after.not_fixed == {"remove it": "No such file or directory"}


def test_a_dry_run_says_what_it_would_change_and_changes_nothing(tmp_path: Path) -> None:
    litter = tmp_path / "litter"
    litter.touch()
    ran = first_look(litter_check(litter, litter.unlink), check_context(tmp_path))

    after = planned(ran)

    assert (after.would_fix, after.fixed, litter.exists()) == (("remove it",), (), True)
    assert outcome_of(after).verdict is Verdict.INFRA
