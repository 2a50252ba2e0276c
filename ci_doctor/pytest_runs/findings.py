# SPDX-License-Identifier: Apache-2.0
"""Pure. From a result to findings, the worst first, and to the outcome that is reported."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from ci_doctor.model.facts import Facts
from ci_doctor.model.outcome import (
    Attachment,
    Attempt,
    Case,
    CaseAttempt,
    CaseOutcome,
    ErrorKind,
    Evidence,
    Failure,
    Finding,
    Outcome,
    Rule,
    Severity,
    ShellCommand,
    Verdict,
    concluded,
    dotted,
    signal_kind,
)
from ci_doctor.pytest_runs.attempt import PytestOutcome, PytestSession, RunKind, TestAttempt
from ci_doctor.pytest_runs.explanation import explained_finding
from ci_doctor.pytest_runs.quarantine import (
    MOST_DAYS,
    command_of,
    explain_command,
    group_and_name,
    shaping_options,
)
from ci_doctor.pytest_runs.result import (
    FLAKY_STATUS,
    PytestResult,
    TestJudgement,
    fails_on_flaky,
    is_skipped,
    run_verdict,
)
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


# --- the facts of the report of a run, and from a result to them ---


class SessionFacts(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One process of pytest with its workers. kind: why it was started. how: how it ended."""

    kind: str
    how: str
    duration_s: float
    tests: int
    log: str | None = None
    seed: int | None = None
    hash_seed: str | None = None


class PytestFacts(Facts, frozen=True, kw_only=True):
    """counts: tests by verdict; `skipped` ones are counted apart. tests: those that did not simply pass.

    problems: why the run is no whole evidence. base: the commit of `--baseline`. received: the signal
    that ended the run. rerun_budget_s: the time for all reruns. not_rerun: failed tests for whose reruns
    it was not enough.
    """

    counts: dict[str, int]
    tests: tuple[TestJudgement, ...]
    sessions: tuple[SessionFacts, ...]
    python: str | None
    pytest: str | None
    interpreter: str
    plugins: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    base: str | None = None
    new_tests: tuple[str, ...] = ()
    received: str | None = None
    rerun_budget_s: float | None = None
    not_rerun: tuple[str, ...] = ()


def facts_of(result: PytestResult, directory: Path | None) -> PytestFacts:
    """The facts of `result`; logs by their place in the report directory, if there is one."""
    first = result.suite[0]
    return PytestFacts(
        counts=counts_of(result),
        tests=tuple(
            replace(
                judged,
                quarantined=judged.test in result.quarantine.held,
                attempts=tuple(
                    replace(each, log=relative_log(each.log, directory)) for each in judged.attempts
                ),
            )
            for judged in result.judged
            if is_worth_telling(judged)
        ),
        sessions=tuple(
            SessionFacts(
                kind=each.kind,
                how=each.how_it_ended,
                duration_s=round(each.duration_s, 3),
                tests=len(each.attempts),
                log=relative_log(each.log, directory),
                seed=each.seed,
                hash_seed=each.hash_seed,
            )
            for each in result.sessions
        ),
        python=first.python,
        pytest=first.pytest,
        interpreter=str(result.python),
        plugins=first.plugins,
        problems=tuple(problem.text for problem in result.problems),
        base=result.base,
        new_tests=result.new,
        received=result.interrupted,
        rerun_budget_s=None if result.rerun_s is None else round(result.rerun_s, 3),
        not_rerun=result.out_of_time,
    )


# --- from the judgement of a test to the test case of a report ---

# The types of pytest's own JUnit file.
_SKIPS = {PytestOutcome.SKIPPED: "pytest.skip", PytestOutcome.XFAILED: "pytest.xfail"}
_CASE_OUTCOMES = {
    Verdict.PASS: CaseOutcome.PASSED,
    Verdict.FLAKY: CaseOutcome.PASSED,
    Verdict.FAILED: CaseOutcome.FAILED,
    Verdict.REGRESSION: CaseOutcome.FAILED,
    Verdict.INFRA: CaseOutcome.ERROR,
    Verdict.VOID: CaseOutcome.ERROR,
}


def case_of(judged: TestJudgement, result: PytestResult) -> Case:
    """The case of one test, with all of its attempts if there were several."""
    group, name = group_and_name(judged.test)
    last = judged.last
    if judged.is_plain_pass and last is not None:
        # By far the most of them.
        return Case(group=group, name=name, outcome=CaseOutcome.PASSED, duration_s=last.duration_s)
    outcome, message = _CASE_OUTCOMES[judged.verdict], None
    kind: str | UnsetType = UNSET
    failed = next((each for each in judged.attempts if not each.is_green), None)
    detail = None if failed is None else failed.traceback or failed.message
    if judged.verdict is not Verdict.PASS:
        message = ": ".join(filter(None, [judged.why, first_message(judged)]))
        if outcome is CaseOutcome.FAILED and last and last.outcome is PytestOutcome.ERROR:
            outcome = CaseOutcome.ERROR
    elif last is not None and last.outcome in _SKIPS:
        outcome, message, kind = CaseOutcome.SKIPPED, last.message, _SKIPS[last.outcome]
        if detail is None and last.file is not None:
            detail = f"{last.file}:{last.line}: {message}"
    entry = result.quarantine.held.get(judged.test)
    if entry is not None and judged.verdict is not Verdict.PASS:
        outcome = CaseOutcome.SKIPPED
        message = f"quarantined until {entry.until} ({entry.owner}): {judged.why}"
    attempts: tuple[CaseAttempt, ...] = ()
    if len(judged.attempts) > 1 and is_worth_telling(judged):
        # One at the base is of other code.
        own = (each for each in judged.attempts if each.run is not RunKind.BASELINE)
        attempts = tuple(map(_case_attempt, own))
    return Case(
        group=group,
        name=name,
        outcome=outcome,
        message=message,
        detail=detail,
        duration_s=None if last is None else last.duration_s,
        attempts=attempts,
        kind=kind,
    )


def _collected_cases(result: PytestResult) -> Iterator[Case]:
    """The files that have no tests, as pytest's own JUnit file has them, before all tests."""
    errors = {name: text for each in result.suite for name, text in each.collect_errors.items()}
    skips = {name: text for each in result.suite for name, text in each.collect_skips.items()}
    for name, text in (errors | skips).items():
        is_error = name in errors
        group, own = group_and_name(name)
        yield Case(
            group=group,
            name=dotted(own),
            outcome=CaseOutcome.ERROR if is_error else CaseOutcome.SKIPPED,
            message="collection failure" if is_error else "collection skipped",
            detail=text,
        )


def _case_attempt(attempt: TestAttempt) -> CaseAttempt:
    lines = (attempt.message or "").strip().splitlines()
    return CaseAttempt(
        outcome=_outcome_of(attempt),
        message=f"{attempt.run}: {lines[0] if lines else attempt.outcome}",
        detail=attempt.traceback,
        duration_s=attempt.duration_s,
        started_at=attempt.started_at,
    )


def _outcome_of(attempt: TestAttempt) -> CaseOutcome:
    if attempt.outcome is PytestOutcome.SKIPPED:
        return CaseOutcome.SKIPPED
    if attempt.is_green:
        return CaseOutcome.PASSED
    if attempt.outcome is PytestOutcome.FAILED:
        return CaseOutcome.FAILED
    return CaseOutcome.ERROR


# --- from a result to the outcome that is reported ---

_MANY = frozenset({RunKind.ALONE, RunKind.NEW})


def outcome_of(result: PytestResult, working: Path, directory: Path | None) -> Outcome:
    """What `result` means. working: where the command runs. directory: of reports, if there is one."""
    findings = findings_of(result, working)
    facts = facts_of(result, directory)
    summary = _summary(result, facts.counts)
    verdict, summary = concluded(run_verdict(result), summary, findings)
    # As without ci-doctor: `--fail-on-flaky` of pytest-rerunfailures.
    is_seven = verdict is Verdict.FLAKY and fails_on_flaky(result.suite)
    # There may be a hundred others, which the facts hold.
    sessions = [each for each in result.sessions if each.kind not in _MANY]
    attachments = []
    for session in sessions:
        path = relative_log(session.log, directory)
        if path is not None:
            attachments.append(Attachment(path=path, title=f"the output of the run {session.kind}"))
    return Outcome(
        verdict=verdict,
        summary=summary,
        command_status=FLAKY_STATUS if is_seven else None,
        findings=findings,
        facts=facts,
        cases=(
            *_collected_cases(result),
            # One that never began has no case, as in pytest's own file.
            *(case_of(judged, result) for judged in result.judged if judged.attempts),
        ),
        attempts=tuple(
            Attempt(
                name=each.kind,
                outcome=each.how_it_ended,
                ok=each.has_ended_in_order and each.exit_code == 0,
                duration_s=round(each.duration_s, 3),
                log=relative_log(each.log, directory),
            )
            for each in sessions
        ),
        attachments=tuple(attachments),
    )


def refused_outcome() -> Outcome:
    """The outcome if pytest refused its command line: it has said why itself."""
    message = "pytest refused its command line"
    error = Failure(message=message, hint="pytest says why above", kind=ErrorKind.USAGE)
    return Outcome(verdict=None, summary=message, error=error)


def answered_outcome(question: str, session: PytestSession) -> Outcome:
    """The outcome if pytest was asked for no test: no verdict, and the status of pytest."""
    summary = f"{question}: pytest ran no test, and ended with {session.how_it_ended}"
    code = session.exit_code
    if code is None:
        # A signal ended it: a crash of what it loads is the change's own, as far as anybody knows.
        error = Failure(message=summary, kind=ErrorKind.PREPARATION)
        return Outcome(verdict=None, summary=summary, error=error)
    return Outcome(verdict=None, summary=summary, command_status=code)


def interrupted_outcome(outcome: Outcome, name: str) -> Outcome:
    """`outcome` after a signal to ci-doctor: what is known so far, and no verdict."""
    message = f"interrupted by {name}; {outcome.summary} before that"
    error = Failure(message=message, kind=signal_kind(name))
    return replace(outcome, verdict=None, summary=message, error=error)


def _summary(result: PytestResult, counts: Mapping[str, int]) -> str:
    """`2 failed, 1 flaky, 120 passed`; the reason if nothing ran."""
    parts = []
    for name in ("regression", "failed", "void", "infra", "flaky", "quarantined"):
        count = counts.get(name, 0)
        if count:
            parts.append(_counted(count, name))
    if counts.get("pass"):
        parts.append(f"{counts['pass']} passed")
    if counts.get(SKIPPED):
        parts.append(f"{counts[SKIPPED]} skipped")
    if result.not_run:
        parts.append(f"{result.not_run} not run")
    text = ", ".join(parts) or "no test ran"
    if result.problems:
        text = f"{text}; {result.problems[0].text}"
    return text


def _counted(count: int, name: str) -> str:
    if name == Verdict.REGRESSION:
        return amount(count, name)
    if name == Verdict.VOID:
        return f"{count} without a result"
    return f"{count} {name}"
