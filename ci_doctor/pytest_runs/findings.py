# SPDX-License-Identifier: Apache-2.0
"""From a result to findings, the worst first. Pure."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ci_doctor.model.finding import Evidence, Finding, Rule, ShellCommand
from ci_doctor.model.verdict import Verdict
from ci_doctor.pytest_runs import rules
from ci_doctor.pytest_runs.attempt import PytestOutcome, RunKind, TestAttempt
from ci_doctor.pytest_runs.judging import TestJudgement
from ci_doctor.pytest_runs.naming import command_of, explain_command, shaping_options
from ci_doctor.pytest_runs.result import PytestResult
from ci_doctor.render.formatting import amount
from ci_doctor.system.secrets.private_keys import first_words, last_words, shortened_words

# Of each verdict; the facts hold all of them.
_MOST: Final = 50
_EXCERPT: Final = 1500  # characters
_RULES: Final = {
    Verdict.REGRESSION: rules.REGRESSION,
    Verdict.FAILED: rules.FAILED,
    Verdict.VOID: rules.NO_RESULT,
    Verdict.INFRA: rules.INFRA,
    Verdict.FLAKY: rules.FLAKY,
}


def findings_of(result: PytestResult, directory: Path) -> tuple[Finding, ...]:
    """All findings about `result`; commands are for a shell in `directory`."""
    # A file that cannot be collected is why hundreds of tests have no result: it stands before them.
    findings = [*_of_problems(result), *_of_tests(result, directory)]
    # Stable: of one severity the order stays.
    order = ["error", "warning", "note"]
    findings.sort(key=lambda finding: order.index(finding.severity))
    return (*findings, *_asides(result))


def _of_tests(result: PytestResult, directory: Path) -> Iterator[Finding]:
    for verdict in _RULES:
        # Tests that never began are one problem of the run, which counts them.
        tried = [each for each in result.with_verdict(verdict) if each.runs]
        for judged in tried[:_MOST]:
            yield _of_test(judged, result, directory)
    for judged in result.judged:
        entry = result.quarantined.get(judged.test)
        if entry is not None and judged.verdict is not Verdict.PASS:
            yield rules.QUARANTINED.finding(
                f"{judged.test}: {judged.why}; quarantined until {entry.until} "
                f"({entry.owner}: {entry.reason})",
            )


def _of_test(judged: TestJudgement, result: PytestResult, directory: Path) -> Finding:
    rule = _rule(judged)
    summary = f"{judged.test}: {judged.why}"
    message = _message(judged)
    if message:
        summary = f"{summary}: {message}"
    command = _command(judged, result, directory)
    return rule.finding(summary, evidence=_evidence(judged), remedy=ShellCommand(command))


def _command(judged: TestJudgement, result: PytestResult, directory: Path) -> str:
    """The test alone; of one that passes alone, the search for what decides."""
    session = result.suite[0]
    passes_alone = any(each.has_passed for each in judged.of(RunKind.ALONE))
    if passes_alone and judged.verdict is Verdict.FAILED:
        return explain_command(result.python, result.args, session.seed)
    options = shaping_options(result.args)
    return command_of(result.python, judged.test, session.root, directory, options)


def _rule(judged: TestJudgement) -> Rule:
    if judged.order_dependent and judged.verdict is Verdict.FAILED:
        return rules.ORDER_DEPENDENT
    return _RULES[judged.verdict]


def _message(judged: TestJudgement) -> str:
    """The first line of what the first failure says."""
    for run in judged.runs:
        if not run.attempt.is_green and run.attempt.message:
            lines = run.attempt.message.strip().splitlines()
            return first_words(lines[0], 300) if lines else ""
    return ""


def _evidence(judged: TestJudgement) -> tuple[Evidence, ...]:
    evidence = []
    for run in judged.runs:
        attempt = run.attempt
        if attempt.is_green:
            continue
        excerpt = _excerpt(attempt)
        evidence.append(Evidence(file=attempt.file, line=attempt.line, excerpt=excerpt or None))
        break
    if judged.cause is not None:
        evidence.append(Evidence(excerpt=f"root cause: {judged.cause}"))
    if judged.past is not None:
        evidence.append(Evidence(excerpt=f"history: {judged.past}"))
    evidence.append(Evidence(excerpt=attempts_line(judged)))
    return tuple(evidence)


def _excerpt(attempt: TestAttempt) -> str:
    """What tells most: the end of a traceback, the beginning of the stack of a test that hangs."""
    text = attempt.traceback or attempt.message or ""
    if len(text) <= _EXCERPT:
        return text
    if attempt.outcome is PytestOutcome.TIMEOUT:
        return shortened_words(text, _EXCERPT)
    return f"…{last_words(text, _EXCERPT)}"


def attempts_line(judged: TestJudgement) -> str:
    """`suite failed, alone passed, order passed`."""
    parts = []
    for run in judged.runs:
        word = str(run.attempt.outcome)
        if run.attempt.worker:
            word += f" on {run.attempt.worker}"
        parts.append(f"{run.kind} {word}")
    return "attempts: " + ", ".join(parts)


def _of_problems(result: PytestResult) -> Iterator[Finding]:
    for problem in result.problems:
        rule = rules.UNEXPLAINED_END if problem.is_failure else rules.NOT_WHOLE
        detail = last_words(problem.detail, _EXCERPT)
        evidence = (Evidence(excerpt=detail),) if detail else ()
        yield rule.finding(problem.text, evidence=evidence)


def _asides(result: PytestResult) -> Iterator[Finding]:
    yield from _of_quarantine(result)
    for each in result.explained:
        yield each.finding
    yield from _of_the_base(result)
    if result.too_many:
        yield rules.TOO_MANY_FAILURES.finding("too many tests failed to run them again")
    if result.out_of_time:
        names = "\n".join(result.out_of_time[:_MOST])
        budget = f"{result.rerun_s:.0f} s" if result.rerun_s is not None else "the budget"
        yield rules.RERUN_TIME.finding(
            f"{budget} were not enough to run {amount(len(result.out_of_time), 'failed test')} again",
            evidence=(Evidence(excerpt=names),),
        )
    if result.new:
        names = "\n".join(result.new[:_MOST])
        yield rules.NEW_TESTS.finding(
            f"{len(result.new)} tests are new", evidence=(Evidence(excerpt=names),)
        )
    if _all_skipped(result):
        yield rules.ALL_SKIPPED.finding(f"all {len(result.judged)} tests were skipped")
    for session in result.sessions:
        if session.left_over:
            names = ", ".join(sorted(set(session.left_over)))
            yield rules.LEFT_PROCESSES.finding(f"the run `{session.kind}` left processes: {names}")


def _of_the_base(result: PytestResult) -> Iterator[Finding]:
    if result.base is not None and result.base.problem is not None:
        yield rules.BASELINE.finding(
            f"the base {result.base.commit[:12]} shows nothing: {result.base.problem}"
        )
    if result.past_problem is not None:
        yield rules.HISTORY.finding(f"the history was not used: {result.past_problem}")


def _of_quarantine(result: PytestResult) -> Iterator[Finding]:
    for entry in result.over:
        yield rules.QUARANTINE_OVER.finding(
            f"the entry of {entry.test} held until {entry.until} (owner: {entry.owner})"
        )
    for entry in result.unused:
        yield rules.QUARANTINE_UNUSED.finding(f"no test matches the entry {entry.test}")
    for entry, count in result.wide:
        yield rules.QUARANTINE_WIDE.finding(
            f"the entry of {entry.test} holds {count} of {len(result.judged)} tests, which do not decide"
        )
    for entry in result.long:
        yield rules.QUARANTINE_LONG.finding(
            f"the entry of {entry.test} holds until {entry.until} (owner: {entry.owner})"
        )
    for test, clause in result.long_green.items():
        yield rules.QUARANTINE_GREEN.finding(f"the entry of {test} may go: {clause}")


def _all_skipped(result: PytestResult) -> bool:
    attempts = [attempt for session in result.suite for attempt in session.attempts]
    return bool(attempts) and all(attempt.outcome is PytestOutcome.SKIPPED for attempt in attempts)
