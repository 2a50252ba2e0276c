# SPDX-License-Identifier: Apache-2.0
"""Pure. From a result to findings, the worst first."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ci_doctor.model.outcome import Evidence, Finding, Rule, Severity, ShellCommand, Verdict
from ci_doctor.pytest_runs.attempt import PytestOutcome, RunKind, TestAttempt
from ci_doctor.pytest_runs.explanation import explained_finding
from ci_doctor.pytest_runs.judging import TestJudgement
from ci_doctor.pytest_runs.quarantine import (
    MOST_DAYS,
    command_of,
    explain_command,
    shaping_options,
)
from ci_doctor.pytest_runs.result import PytestResult, is_skipped
from ci_doctor.render.formatting import amount, listed
from ci_doctor.system.secrets.private_keys import first_words, last_words, shortened_words

# --- the rules of findings about runs of pytest ---

FAILED: Final = Rule(
    id="test-run/failed",
    severity=Severity.ERROR,
    meaning="A test failed in the suite, and no further run proves that it is flaky. The finding says "
    "how often it failed, and where.",
    remedy="Run the command of the finding, and mend what it shows.",
)
REGRESSION: Final = Rule(
    id="test-run/regression",
    severity=Severity.ERROR,
    meaning="A test fails each time with the change, and passes at the base, where it ran too "
    "(`--baseline`).",
    remedy="The change between the two commits broke it. `git bisect` finds the commit.",
)
ORDER_DEPENDENT: Final = Rule(
    id="test-run/order-dependent",
    severity=Severity.ERROR,
    meaning="A test passed alone, and failed in the order of the suite, each so often that chance "
    "explains it in 2 % of cases at most. A test before it leaves something behind: a variable, a module, "
    "a file, a process.",
    remedy="Find the test that does it, and have it tidy up; or give the test what it needs in a "
    "fixture.",
)
FLAKY: Final = Rule(
    id="test-run/flaky",
    severity=Severity.WARNING,
    meaning="A test failed and passed with the same code and under one condition: in the order of the "
    "suite, or alone.",
    remedy="Mend the test, or list it in `ci-doctor-quarantine.toml` with an owner and a date. "
    "`--fail-on-flaky` makes it a failure.",
)
INFRA: Final = Rule(
    id="test-run/infra",
    severity=Severity.WARNING,
    meaning="Each failure of a test names a full disk. At the end of the run a disk that the tests write "
    "to was full: the working directory's, that of temporary files, or that of the named path.",
    remedy="Free space on that disk, or run the job again on another agent.",
)
NO_RESULT: Final = Rule(
    id="test-run/no-result",
    severity=Severity.WARNING,
    meaning="A test has no result: its process ended by `os._exit`, or a worker was lost, or pytest "
    "stopped before it. Nothing is known of the test, so the run is not green.",
    remedy="Look at the log of the process. A test must not end the interpreter.",
)
NOT_WHOLE: Final = Rule(
    id="test-run/not-whole",
    severity=Severity.WARNING,
    meaning="The run is no whole evidence: nothing was collected, a file cannot be collected or loads for too "
    "long, pytest failed itself, or tests have no result.",
    remedy="Mend what the finding names, and run it again.",
)
UNEXPLAINED_END: Final = Rule(
    id="test-run/unexplained-end",
    severity=Severity.ERROR,
    meaning="pytest ended with a failure that no test explains: a plugin's own (coverage), an exit "
    "status that something changed, or a crash after the last test.",
    remedy="Look at the end of what pytest wrote.",
)
LEFT_PROCESSES: Final = Rule(
    id="test-run/left-processes",
    severity=Severity.NOTE,
    meaning="Processes of the tests were alive two seconds after the end of pytest. ci-doctor stopped "
    "them.",
    remedy="Stop them in the fixture that starts them, after its `yield`.",
)
ALL_SKIPPED: Final = Rule(
    id="test-run/all-skipped",
    severity=Severity.ERROR,
    meaning="Every test was skipped, or failed in quarantine. The run shows nothing and does not pass.",
    remedy="Look at the reasons of skips (`-rs`), and at the patterns in the quarantine file.",
)
TOO_MANY_FAILURES: Final = Rule(
    id="test-run/too-many-failures",
    severity=Severity.NOTE,
    meaning="More than 50 tests failed, so none was run again: so many are no flakes.",
    remedy="Mend what they share first; the root cause of each is in the report.",
)
RERUN_TIME: Final = Rule(
    id="test-run/rerun-budget",
    severity=Severity.NOTE,
    meaning="The time for reruns was over before each failed test had run again as often as is usual. "
    "Such a test stays failed.",
    remedy="Mend what many tests fail for, or give more time: `--rerun-budget 10m`.",
)
QUARANTINED: Final = Rule(
    id="test-run/quarantined",
    severity=Severity.NOTE,
    meaning="A test failed that `ci-doctor-quarantine.toml` lists. It does not decide.",
    remedy="Its owner mends it before the date of the entry.",
)
QUARANTINE_OVER: Final = Rule(
    id="test-run/quarantine-over",
    severity=Severity.WARNING,
    meaning="An entry of `ci-doctor-quarantine.toml` is past its date `until`, so the test decides again.",
    remedy="Mend the test and remove the entry, or set a new date.",
)
QUARANTINE_UNUSED: Final = Rule(
    id="test-run/quarantine-unused",
    severity=Severity.WARNING,
    meaning="An entry of `ci-doctor-quarantine.toml` matches no test, though the run was to hold its test.",
    remedy="Remove the entry, or correct the name of the test.",
)
QUARANTINE_LEFT_OUT: Final = Rule(
    id="test-run/quarantine-left-out",
    severity=Severity.NOTE,
    meaning="This run was of some tests, by `-k`, `-m` or the names of files, and of none that an entry of "
    "`ci-doctor-quarantine.toml` names. It does not show whether the entry still has a test.",
)
QUARANTINE_WIDE: Final = Rule(
    id="test-run/quarantine-wide",
    severity=Severity.WARNING,
    meaning="An entry of `ci-doctor-quarantine.toml` is a pattern without a name, or matches more than half of "
    "the tests. They run, and none of them decides: the run is green whatever the change breaks.",
    remedy="Name the flaky tests, one entry for each.",
)
QUARANTINE_LONG: Final = Rule(
    id="test-run/quarantine-long",
    severity=Severity.WARNING,
    meaning="An entry of `ci-doctor-quarantine.toml` holds for more than 90 days: nobody looks at the test until then.",
    remedy="Set a date within 90 days. Its owner may set the next one then.",
)
BASELINE: Final = Rule(
    id="test-run/baseline",
    severity=Severity.WARNING,
    meaning="The base (`--baseline`) shows nothing: its tests could not be run, or they loaded files "
    "of the change.",
    remedy="A package that is installed in editable form may be loaded from the change. Give the base "
    "an environment of its own with `--python`, or put the source folder on PYTHONPATH by a "
    "relative path.",
)
NEW_TESTS: Final = Rule(
    id="test-run/new-tests",
    severity=Severity.NOTE,
    meaning="The base does not have these tests. `--new-tests N` ran them N times.",
)

RULES: Final = (
    FAILED,
    REGRESSION,
    ORDER_DEPENDENT,
    FLAKY,
    INFRA,
    NO_RESULT,
    NOT_WHOLE,
    UNEXPLAINED_END,
    LEFT_PROCESSES,
    ALL_SKIPPED,
    TOO_MANY_FAILURES,
    RERUN_TIME,
    QUARANTINED,
    QUARANTINE_OVER,
    QUARANTINE_UNUSED,
    QUARANTINE_LEFT_OUT,
    QUARANTINE_WIDE,
    QUARANTINE_LONG,
    BASELINE,
    NEW_TESTS,
)


# --- what facts, cases and sentences about a result have in common ---

SKIPPED = "skipped"


def counts_of(result: PytestResult) -> dict[str, int]:
    """Tests by verdict; skipped and quarantined ones apart."""
    counts: dict[str, int] = {}
    for judged in result.judged:
        key = str(judged.verdict)
        if judged.test in result.quarantine.held and judged.verdict is not Verdict.PASS:
            key = "quarantined"
        elif is_skipped(judged):
            key = SKIPPED
        counts[key] = counts.get(key, 0) + 1
    return counts


def is_worth_telling(judged: TestJudgement) -> bool:
    """Whether it did more than pass, in the suite and before another test in an order."""
    if judged.is_plain_pass:
        return False
    if judged.verdict is not Verdict.PASS:
        return True
    return any(not each.is_green or each.run is RunKind.NEW for each in judged.attempts)


def relative_log(log: str | None, directory: Path | None) -> str | None:
    """The path of a log in the report directory; None if it was not kept."""
    if log is None or directory is None:
        return None
    return os.path.relpath(log, directory)


# --- from a result to findings, the worst first ---

# Of each verdict; the facts hold all of them.
_MOST: Final = 50
_EXCERPT: Final = 1500  # characters
_RULES: Final = {
    Verdict.REGRESSION: REGRESSION,
    Verdict.FAILED: FAILED,
    Verdict.VOID: NO_RESULT,
    Verdict.INFRA: INFRA,
    Verdict.FLAKY: FLAKY,
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
        tried = [each for each in result.with_verdict(verdict) if each.attempts]
        for judged in tried[:_MOST]:
            yield _of_test(judged, result, directory)
    for judged in result.judged:
        entry = result.quarantine.held.get(judged.test)
        if entry is not None and judged.verdict is not Verdict.PASS:
            yield QUARANTINED.finding(
                f"{judged.test}: {judged.why}; quarantined until {entry.until} "
                f"({entry.owner}: {entry.reason})",
            )


def _of_test(judged: TestJudgement, result: PytestResult, directory: Path) -> Finding:
    rule = _rule(judged)
    summary = f"{judged.test}: {judged.why}"
    message = first_message(judged)
    if message:
        summary = f"{summary}: {message}"
    command = _command(judged, result, directory)
    return rule.finding(summary, evidence=tuple(_evidence(judged)), remedy=ShellCommand(command))


def _command(judged: TestJudgement, result: PytestResult, directory: Path) -> str:
    """The test alone; of one that passes alone, the search for what decides."""
    session = result.suite[0]
    passes_alone = any(each.has_passed for each in judged.attempts if each.run is RunKind.ALONE)
    if passes_alone and judged.verdict is Verdict.FAILED:
        return explain_command(result.python, result.args, session.seed)
    options = shaping_options(result.args)
    return command_of(result.python, judged.test, session.root, directory, options)


def _rule(judged: TestJudgement) -> Rule:
    if judged.order_dependent and judged.verdict is Verdict.FAILED:
        return ORDER_DEPENDENT
    return _RULES[judged.verdict]


def first_message(judged: TestJudgement) -> str:
    """The first line of what the first failure says."""
    for each in judged.attempts:
        if not each.is_green and each.message:
            lines = each.message.strip().splitlines()
            return first_words(lines[0], 300) if lines else ""
    return ""


def _evidence(judged: TestJudgement) -> Iterator[Evidence]:
    failed = next((each for each in judged.attempts if not each.is_green), None)
    if failed is not None:
        yield Evidence(file=failed.file, line=failed.line, excerpt=_excerpt(failed) or None)
    if judged.cause is not None:
        yield Evidence(excerpt=f"root cause: {judged.cause}")
    # `suite failed, alone passed, order passed on gw1`.
    words = [
        f"{each.run} {each.outcome}{f' on {each.worker}' if each.worker else ''}"
        for each in judged.attempts
    ]
    yield Evidence(excerpt="attempts: " + ", ".join(words))


def _excerpt(attempt: TestAttempt) -> str:
    """What tells most: the end of a traceback, the beginning of the stack of a test that hangs."""
    text = attempt.traceback or attempt.message or ""
    if len(text) <= _EXCERPT:
        return text
    if attempt.outcome is PytestOutcome.TIMEOUT:
        return shortened_words(text, _EXCERPT)
    return f"…{last_words(text, _EXCERPT)}"


def _of_problems(result: PytestResult) -> Iterator[Finding]:
    for problem in result.problems:
        rule = UNEXPLAINED_END if problem.is_failure else NOT_WHOLE
        detail = last_words(problem.detail, _EXCERPT)
        evidence = (Evidence(excerpt=detail),) if detail else ()
        yield rule.finding(problem.text, evidence=evidence)


def _asides(result: PytestResult) -> Iterator[Finding]:
    yield from _of_quarantine(result)
    for test, explanation in result.explained.items():
        yield explained_finding(test, explanation)
    yield from _of_further_runs(result)
    if result.new:
        names = "\n".join(result.new[:_MOST])
        yield NEW_TESTS.finding(
            f"{len(result.new)} tests are new", evidence=(Evidence(excerpt=names),)
        )
    if result.shows_nothing:
        kinds = [f"{count} {kind}" for kind, count in counts_of(result).items()]
        yield ALL_SKIPPED.finding(f"no test decides: {' and '.join(kinds)}")
    for session in result.sessions:
        if session.left_over:
            names = ", ".join(sorted(set(session.left_over)))
            yield LEFT_PROCESSES.finding(f"the run `{session.kind}` left processes: {names}")


def _of_further_runs(result: PytestResult) -> Iterator[Finding]:
    if result.base_problem is not None:
        yield BASELINE.finding(
            f"the base {(result.base or '')[:12]} shows nothing: {result.base_problem}"
        )
    if result.too_many:
        yield TOO_MANY_FAILURES.finding("too many tests failed to run them again")
    if result.out_of_time:
        names = "\n".join(result.out_of_time[:_MOST])
        yield RERUN_TIME.finding(
            f"{result.rerun_s or 0:.0f} s were not enough to run "
            f"{amount(len(result.out_of_time), 'failed test')} again",
            evidence=(Evidence(excerpt=names),),
        )


def _of_quarantine(result: PytestResult) -> Iterator[Finding]:
    for entry in result.quarantine.over:
        yield QUARANTINE_OVER.finding(
            f"the entry of {entry.test} held until {entry.until} (owner: {entry.owner})"
        )
    for entry in result.quarantine.unused:
        yield QUARANTINE_UNUSED.finding(f"no test matches the entry {entry.test}")
    if result.quarantine.left_out:
        names = listed([entry.test for entry in result.quarantine.left_out])
        yield QUARANTINE_LEFT_OUT.finding(f"this run left out what the quarantine names: {names}")
    for entry, count in result.quarantine.wide:
        yield QUARANTINE_WIDE.finding(
            f"the entry of {entry.test} holds {count} of {len(result.judged)} tests, which do not decide"
        )
    for entry in result.quarantine.long:
        yield QUARANTINE_LONG.finding(
            f"the entry of {entry.test} holds until {entry.until}, for more than {MOST_DAYS} days "
            f"(owner: {entry.owner})"
        )
