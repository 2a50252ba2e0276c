# SPDX-License-Identifier: Apache-2.0
"""Pure. What is wrong with a merged build: its causes, its retries, and gaps in what is known. And its outcome."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Final

from msgspec.structs import replace

from ci_doctor.build.collect import JobFiles, Material
from ci_doctor.build.job_attempt import (
    JobAttempt,
    case_outcome,
    duration_s,
    in_utc,
    known,
    verdict_of_build,
    verdict_of_files,
    verdict_of_record,
)
from ci_doctor.build.merge import (
    LONGEST_FIELD,
    BuildCause,
    BuildStep,
    FailedAttempt,
    MergedBuild,
    amount,
    attempt_id,
    cause_id,
    clipped,
    lies_outside,
    listed,
    spent,
    worths_of_retries,
)
from ci_doctor.model.facts.build import BuildFacts, CauseFacts, JobFacts, RetryWorth, StepFacts
from ci_doctor.model.outcome import (
    MISSING,
    Case,
    CaseAttempt,
    CaseOutcome,
    Evidence,
    Finding,
    Outcome,
    Rule,
    Severity,
    Table,
    Verdict,
    is_green,
    ordered,
    rank,
    row,
)
from ci_doctor.model.words import parse_moment
from ci_doctor.render.build_annotation import counted, step_ending

# --- the rules of findings about a build of several jobs ---

CAUSE = Rule(
    id="build/cause",
    severity=Severity.ERROR,
    meaning=(
        "Jobs of the build failed by this cause. It is a warning if a later attempt of each of "
        "them passed, if the pipeline lets it fail (`soft_fail`), or if somebody cancelled it."
    ),
    remedy="Do what the cause's own text says. What the change has broken stands first.",
)
MISSING_REPORT = Rule(
    id="build/missing-report",
    severity=Severity.ERROR,
    meaning=(
        "A step that was expected, a parallel job, a job that Buildkite knows, or every job has no "
        "report. What it would have said is unknown, so the build does not pass."
    ),
    remedy=(
        "See the job's log. A lost agent and a job without the plugin leave no report; a job that "
        "still runs has none yet, so merge in a step that depends on it. The folder to name is the "
        "one into which the artifacts were downloaded."
    ),
)
UNREPORTED = Rule(
    id="build/unreported",
    severity=Severity.WARNING,
    meaning=(
        "Files that would say more are not there: of jobs that passed or failed softly by "
        "Buildkite's account, those that a job's record names, or of a folder that was named "
        "beside others. They decide nothing: what is there counts."
    ),
    remedy=(
        "Give the steps the ci-doctor plugin, and see whether the job's last hook could upload."
    ),
)
CLAIMED_TWICE = Rule(
    id="build/claimed-twice",
    severity=Severity.ERROR,
    meaning=(
        "Two jobs claim to be the same attempt of the same step. Nobody knows which one counts, so "
        "the build does not pass."
    ),
    remedy=(
        "Give the jobs of a matrix labels with their values (`{{matrix}}`), give steps different "
        "keys, and do not mix the reports of several runs."
    ),
)
CONTRADICTION = Rule(
    id="build/contradiction",
    severity=Severity.ERROR,
    meaning=(
        "Two sources say different things of one job: two records, a record and a report, or a "
        "record and Buildkite's API; or the reports are of different builds or commits. The worst "
        "one counts, and the build does not pass."
    ),
    remedy=(
        "See which one is stale: a checkout or a folder that is used again keeps old files. Merge "
        "the reports of one build, from a folder that was empty before."
    ),
)
UNREADABLE = Rule(
    id="build/unreadable",
    severity=Severity.ERROR,
    meaning=(
        "A file that should hold a job's record or a report is empty, damaged, too large, of "
        "another tool or of a newer ci-doctor, or an artifact could not be had. What it would have "
        "said is unknown, so the build does not pass."
    ),
    remedy="Run the step again, or merge with the version of ci-doctor that wrote the file.",
)
API_UNREADABLE = Rule(
    id="build/api-unreadable",
    severity=Severity.WARNING,
    meaning=(
        "Buildkite's API could not be asked for the jobs of the build. Queue times are unknown, "
        "and so is a job that left no report."
    ),
    remedy=(
        "See the reason. Without the API, name the steps that must have a report with `--expect`."
    ),
)
HID_A_FAILURE = Rule(
    id="build/retry-hid-a-failure",
    severity=Severity.WARNING,
    meaning=(
        "A step failed, and passed when it was tried again. Nothing says that the cause lay "
        "outside the change: the step is flaky, or the change is."
    ),
    remedy=(
        "Look at the cause of the first attempt. Retry the exit code of infrastructure alone: "
        "`ci-doctor config retry-rules` prints the rules."
    ),
)
RETRIED_IN_VAIN = Rule(
    id="build/retried-in-vain",
    severity=Severity.NOTE,
    meaning="A failure was retried that another run does not help.",
    remedy=(
        "Retry the exit code of infrastructure alone: `ci-doctor config retry-rules` prints the "
        "rules."
    ),
)

RULES = (
    CAUSE,
    MISSING_REPORT,
    UNREPORTED,
    CLAIMED_TWICE,
    CONTRADICTION,
    UNREADABLE,
    API_UNREADABLE,
    HID_A_FAILURE,
    RETRIED_IN_VAIN,
)
# Beside one of these nobody can say that the build passed.
GAPS = frozenset(
    rule.id
    for rule in (
        MISSING_REPORT,
        CLAIMED_TWICE,
        CONTRADICTION,
        UNREADABLE,
    )
)


# --- findings about what is missing, claimed twice or contradictory in a merged build ---

_MOST_NAMED: Final = 20


def gap_findings(merged: MergedBuild, problems: Sequence[str]) -> Iterator[Finding]:
    """One finding a kind of gap, or one a thing where each has a reason of its own."""
    if not merged.steps:
        yield MISSING_REPORT.finding("no record and no report of a job was read")
    yield from _missing(merged)
    yield from _unreadable(merged)
    for problem in problems:
        yield UNREADABLE.finding(clipped(problem))
    if merged.builds > 1:
        yield CONTRADICTION.finding(f"the reports are of {merged.builds} different builds")
    yield from _bounded(list(_claimed_twice(merged)), CLAIMED_TWICE)
    yield from _bounded(list(_contradictions(merged)), CONTRADICTION)
    yield from _silent(merged)
    absent = [name for files in merged.files for name in _absent_reports(files, merged.material)]
    if absent:
        summary = f"{amount(len(absent), 'report')} of job records not there: {listed(absent)}"
        yield UNREPORTED.finding(summary)
    if merged.steps and merged.material.empty:
        folders = listed([clipped(each, 200) for each in merged.material.empty])
        yield UNREPORTED.finding(f"no record and no report of a job lies in {folders}")


def _bounded(findings: Sequence[Finding], rule: Rule) -> Iterator[Finding]:
    """The first twenty, and one that counts the rest."""
    yield from findings[:_MOST_NAMED]
    rest = len(findings) - _MOST_NAMED
    if rest > 0:
        yield rule.finding(f"{rest} more of the kind; report.json has all jobs")


def _missing(merged: MergedBuild) -> Iterator[Finding]:
    for each in merged.missing[:_MOST_NAMED]:
        yield MISSING_REPORT.finding(clipped(f"{each.name}: {each.reason}"))
    rest = [each.name for each in merged.missing[_MOST_NAMED:]]
    if rest:
        summary = f"{amount(len(rest), 'more report')} missing: {listed(rest)}"
        yield MISSING_REPORT.finding(summary)


def _unreadable(merged: MergedBuild) -> Iterator[Finding]:
    files = sorted(merged.material.unreadable, key=lambda each: each.place)
    if not files:
        return
    shown = files[:_MOST_NAMED]
    evidence = [Evidence(file=each.place, excerpt=clipped(each.problem, 300)) for each in shown]
    summary = f"{amount(len(files), 'file')} could not be read as a record or a report"
    yield UNREADABLE.finding(summary, evidence=tuple(evidence))


def _claimed_twice(merged: MergedBuild) -> Iterator[Finding]:
    for step in merged.steps:
        for number in step.claimed_twice():
            jobs = [each for each in step.attempts if each.facts.attempt == number]
            summary = f"{len(jobs)} jobs claim to be attempt {number + 1} of {step.name}"
            yield CLAIMED_TWICE.finding(summary, evidence=_jobs(jobs))


def _jobs(jobs: Sequence[JobAttempt]) -> tuple[Evidence, ...]:
    evidence = []
    for each in jobs[:_MOST_NAMED]:
        text = clipped(f"job {each.facts.job}: {each.facts.verdict}")
        evidence.append(Evidence(file=each.place or None, excerpt=text))
    return tuple(evidence)


def _contradictions(merged: MergedBuild) -> Iterator[Finding]:
    for files in merged.files:
        if files.other_records:
            places = [each.place for each in (files.record, *files.other_records) if each]
            evidence = tuple(Evidence(file=place) for place in places[:_MOST_NAMED])
            summary = f"{len(places)} records of job {files.job} differ"
            yield CONTRADICTION.finding(summary, evidence=evidence)
        own = None if files.record is None else files.record.record.verdict
        if own is not None and _is_greener_than_a_report(files):
            evidence = (Evidence(file=files.place),)
            summary = f"the record of job {files.job} says {own}, and a report of it does not"
            yield CONTRADICTION.finding(summary, evidence=evidence)
        if own is not None and known(own) != own:
            summary = f"the record of job {files.job} has a verdict that nobody knows"
            evidence = (Evidence(file=files.place, excerpt=clipped(own, 100)),)
            yield UNREADABLE.finding(summary, evidence=evidence)
    yield from _contradicted_by_api(merged)


def _is_greener_than_a_report(files: JobFiles) -> bool:
    if files.record is None:
        return False
    own = verdict_of_record(files.record.record, [each.report for each in files.reports])
    return is_green(own) and not is_green(verdict_of_files(files))


def _contradicted_by_api(merged: MergedBuild) -> Iterator[Finding]:
    greener = {each.job for each in merged.files if is_green(verdict_of_files(each))}
    for step in merged.steps:
        for attempt in step.attempts:
            facts = attempt.facts
            if attempt.is_reported and facts.job in greener and not is_green(facts.verdict):
                summary = f"{step.name} passed by its report, and is `{attempt.state}` on Buildkite"
                yield CONTRADICTION.finding(summary, evidence=_jobs([attempt]))


def _silent(merged: MergedBuild) -> Iterator[Finding]:
    passed, tolerated = [], []
    for step in merged.steps:
        last = [each for each in step.last if each.facts.verdict == MISSING]
        if any(each.is_soft_failed for each in last):
            tolerated.append(step.name)
        elif any(each.state == "passed" for each in last):
            passed.append(step.name)
    if passed:
        summary = f"{amount(len(passed), 'step')} passed without a report: {listed(passed)}"
        yield UNREPORTED.finding(summary)
    if tolerated:
        steps = amount(len(tolerated), "step")
        yield UNREPORTED.finding(f"{steps} failed softly without a report: {listed(tolerated)}")


def _absent_reports(files: JobFiles, material: Material) -> list[str]:
    """The reports that the job's record names, and that lie neither beside it nor elsewhere.

    A record and its report may have been read from two folders, or from two copies of one.
    """
    if files.record is None:
        return []
    above = PurePosixPath(files.record.folder)
    job = files.record.record.about.job
    copies = {each.folder for each in material.records if job and each.record.about.job == job}
    present = {PurePosixPath(each.place).parent for each in material.reports}
    own = [PurePosixPath(each.place).parent.parts for each in files.reports]
    absent = []
    for name in map(PurePosixPath, files.record.record.reports):
        is_beside = any(PurePosixPath(copy) / name in present for copy in {str(above), *copies})
        if not is_beside and not any(folder[-len(name.parts) :] == name.parts for folder in own):
            absent.append(clipped(str(above / name), 200))
    return absent


# --- what is wrong with a merged build: its causes, its retries, and gaps in what is known ---

# A build in which everything fails in its own way: the facts and the page have all of them.
_MOST_CAUSES: Final = 30


def findings_of(merged: MergedBuild, problems: Sequence[str] = ()) -> tuple[Finding, ...]:
    """Gaps first, as nothing can be concluded beside them, then causes, then retries.

    problems: what kept the artifacts from being read.
    """
    findings = list(gap_findings(merged, problems))
    shown = merged.causes[:_MOST_CAUSES]
    findings += [_cause_finding(cause) for cause in shown]
    rest = merged.causes[_MOST_CAUSES:]
    if rest:
        jobs = amount(sum(cause.facts.jobs for cause in rest), "job")
        summary = f"{jobs} failed by {amount(len(rest), 'further cause')}: report.json has them"
        findings.append(CAUSE.finding(summary, severity=_severity(rest)))
    findings += _retry_findings(merged.steps)
    return tuple(findings)


def _cause_finding(cause: BuildCause) -> Finding:
    facts = cause.facts
    were = "was" if facts.jobs == 1 else "were"
    end = f"{were} cancelled" if facts.cancelled else "failed"
    jobs = amount(facts.jobs, "job")
    summary = f"{facts.title}: {jobs} {end} in {listed(facts.steps)}{spent(facts)}"
    evidence = []
    if facts.text or facts.where:
        evidence.append(Evidence(file=facts.where, excerpt=facts.text))
    return CAUSE.finding(
        summary,
        evidence=tuple(evidence),
        remedy=facts.advice or None,
        severity=_severity([cause]),
    )


def _severity(causes: Sequence[BuildCause]) -> Severity:
    """An error if one of them ended a last attempt that counts, and that nobody cancelled."""
    for cause in causes:
        if any(map(_counts, cause.failed)):
            return Severity.ERROR
    return Severity.WARNING


def _counts(failed: FailedAttempt) -> bool:
    attempt = failed.attempt
    return failed.is_last and not attempt.is_excused and not attempt.facts.cancelled


def _retry_findings(steps: Sequence[BuildStep]) -> Iterator[Finding]:
    hidden = [
        step.name for step in steps if RetryWorth.HID_A_FAILURE in worths_of_retries(step).values()
    ]
    if hidden:
        summary = (
            f"a retry hid a failure of {listed(hidden)}: nothing puts the cause outside the change"
        )
        yield HID_A_FAILURE.finding(summary)
    vain = [step.name for step in steps if _was_retried_in_vain(step)]
    if vain:
        summary = f"a failure that no other run helps was retried: {listed(vain)}"
        yield RETRIED_IN_VAIN.finding(summary)


def _was_retried_in_vain(step: BuildStep) -> bool:
    """Whether an attempt with a known cause within the change was retried, and failed again."""
    if RetryWorth.IN_VAIN not in worths_of_retries(step).values():
        return False
    last = step.attempts[-1].facts.attempt
    before = [each for each in step.attempts if each.facts.attempt != last]
    return any(each.cause is not None and not lies_outside(each) for each in before)


# --- a merged build -> its facts ---


def facts_of(merged: MergedBuild) -> BuildFacts:
    """Steps worst first, causes most urgent first, and texts of a length that can be shown."""
    about = merged.about
    unordered = [_step(step) for step in merged.steps]
    steps = tuple(sorted(unordered, key=lambda step: (rank(step_ending(step)), step.name)))
    jobs = [job for step in steps for job in step.attempts]
    twice = [step.name for step in merged.steps if step.claimed_twice()]
    return BuildFacts(
        pipeline=_field(about.pipeline),
        build=about.build,
        build_url=_field(about.build_url),
        commit=_field(about.commit),
        branch=_field(about.branch),
        began_at=min((job.began_at for job in jobs if job.began_at), key=_second, default=None),
        ended_at=max((job.ended_at for job in jobs if job.ended_at), key=_second, default=None),
        build_steps=steps,
        causes=tuple(cause.facts for cause in merged.causes),
        cause_rule=CAUSE.id,
        missing=tuple(dict.fromkeys(each.name for each in merged.missing)),
        duplicates=tuple(twice),
        knows_queue=merged.knows_queue,
    )


def _second(text: str) -> float:
    return parse_moment(text) or 0.0


def _step(step: BuildStep) -> StepFacts:
    worths = worths_of_retries(step)
    jobs: list[JobFacts] = []
    for attempt in step.attempts:
        job = replace(
            attempt.facts,
            summary=clipped(attempt.facts.summary),
            agent=_field(attempt.facts.agent),
            queue=_field(attempt.facts.queue),
            cause=cause_id(attempt) if attempt.has_failed else None,
            retry=worths.get(attempt_id(attempt)),
        )
        jobs.append(job)
    return StepFacts(
        name=step.name,
        key=_field(step.key),
        label=_field(step.label),
        parallel_index=step.parallel_index,
        verdict=step.verdict,
        attempts=tuple(jobs),
    )


def _field(text: str | None) -> str | None:
    """A text that has one line, and no more than can be shown."""
    return None if text is None else clipped(text, LONGEST_FIELD)


# --- a merged build -> test cases: one a step, and those of the last attempts' reports ---

GROUP: Final = "ci-doctor.build"
# Below the 5,000 results of one upload.
MOST_CASES: Final = 4_000
_RED: Final = frozenset({CaseOutcome.FAILED, CaseOutcome.ERROR})
_LONGEST: Final = 20_000


def cases_of(merged: MergedBuild) -> tuple[Case, ...]:
    """A case a step and a missing report; then the steps' own cases, red ones before all others.

    There are 4,000 of them at most; those of steps come first.
    """
    cases = [_of_step(step) for step in merged.steps]
    cases += [
        Case(
            group=f"{GROUP}.expected",
            name=each.name,
            outcome=CaseOutcome.ERROR,
            message=each.reason,
        )
        for each in merged.missing
        if each.is_expected
    ]
    own = [case for step in merged.steps for case in _own(step)]
    own.sort(key=lambda case: case.outcome not in _RED)
    return tuple([*cases, *own][:MOST_CASES])


def _of_step(step: BuildStep) -> Case:
    attempts = [_attempt(each) for each in step.attempts]
    last = min(step.last, key=lambda each: case_outcome(each.facts.verdict) is CaseOutcome.PASSED)
    final = _attempt(last)
    return Case(
        group=GROUP,
        name=step.name,
        outcome=final.outcome,
        message=final.message,
        detail=final.detail,
        duration_s=final.duration_s,
        attempts=tuple(attempts) if len(attempts) > 1 else (),
    )


def _attempt(attempt: JobAttempt) -> CaseAttempt:
    facts = attempt.facts
    outcome = case_outcome(facts.verdict)
    is_red = outcome in _RED
    detail = attempt.cause.text if attempt.cause is not None else None
    return CaseAttempt(
        outcome=outcome,
        message=clipped(f"{facts.verdict}: {facts.summary}") if is_red else None,
        detail=clipped(detail) if is_red and detail else None,
        duration_s=duration_s(facts),
        started_at=facts.began_at,
        job=facts.job,
    )


def _own(step: BuildStep) -> Iterator[Case]:
    """The cases of the last attempt, each with its executions in all attempts."""
    executions: dict[tuple[str, str], list[CaseAttempt]] = defaultdict(list)
    final: dict[tuple[str, str], Case] = {}
    last = step.last
    for attempt in step.attempts:
        for file in attempt.reports:
            started_at = in_utc(file.report.started_at)
            for case in file.report.cases:
                name = (case.group, case.name)
                executions[name] += _executions(case, started_at, attempt.facts.job)
                if attempt in last:
                    final[name] = case
    for name, case in final.items():
        yield replace(
            case,
            group=f"{step.name}.{case.group}",
            message=_cut(case.message),
            detail=_cut(case.detail),
            attempts=tuple(executions[name]) if len(executions[name]) > 1 else (),
        )


def _executions(case: Case, started_at: str | None, job: str | None) -> list[CaseAttempt]:
    own = case.attempts or (
        CaseAttempt(
            outcome=case.outcome,
            message=case.message,
            detail=case.detail,
            duration_s=case.duration_s,
        ),
    )
    return [
        replace(
            each,
            message=_cut(each.message),
            detail=_cut(each.detail),
            started_at=each.started_at or started_at,
            job=each.job or job,
        )
        for each in own
    ]


def _cut(text: str | None) -> str | None:
    return None if text is None else clipped(text, _LONGEST)


# --- a merged build -> the outcome of `ci-doctor build merge` ---


def outcome_of(
    merged: MergedBuild, problems: Sequence[str] = (), *, api_problem: str | None = None
) -> Outcome:
    """The worst verdict of the last attempts; `void` or worse if something is missing.

    problems: what kept the artifacts from being read, as sentences. api_problem: what kept
    Buildkite's API from telling the jobs.
    """
    findings = findings_of(merged, problems)
    if api_problem is not None:
        findings = (*findings, API_UNREADABLE.finding(clipped(api_problem)))
    facts = facts_of(merged)
    words = [
        step.verdict
        for step in merged.steps
        if not all(attempt.is_excused for attempt in step.last)
    ]
    if any(finding.rule in GAPS for finding in findings):
        words.append(Verdict.VOID)
    return Outcome(
        verdict=verdict_of_build(words),
        summary=_summary(facts, findings),
        findings=findings,
        tables=(_steps(facts),) if facts.build_steps else (),
        facts=facts,
        cases=cases_of(merged),
    )


def _steps(facts: BuildFacts) -> Table:
    """The steps by their ending, below the findings, which say what to do."""
    by_ending: dict[str, list[str]] = defaultdict(list)
    for step in facts.build_steps:
        by_ending[step_ending(step)].append(step.name)
    rows = [row(word, len(by_ending[word]), listed(by_ending[word])) for word in ordered(by_ending)]
    return Table(title="Steps", rows=tuple(rows), is_aside=True)


def _summary(facts: BuildFacts, findings: Sequence[Finding]) -> str:
    """`6 steps: 2 failed, 4 pass; one cause: a disk is full (2 jobs)`."""
    if not facts.build_steps:
        return "no record and no report of a job was read"
    sentences = [_in_words(facts)]
    gaps = sum(finding.rule in GAPS for finding in findings)
    if gaps:
        sentences.append(f"{amount(gaps, 'gap')} in the evidence")
    causes = [cause for cause in facts.causes if not cause.cancelled]
    if causes:
        sentences.append(_first(causes[0], len(causes)))
    hidden = sum(
        any(job.retry is RetryWorth.HID_A_FAILURE for job in step.attempts)
        for step in facts.build_steps
    )
    if hidden:
        sentences.append(f"a retry hid a failure of {amount(hidden, 'step')}")
    return "; ".join(sentences)


def _in_words(facts: BuildFacts) -> str:
    count = len(facts.build_steps)
    if all(is_green(step.verdict) for step in facts.build_steps):
        return f"{amount(count, 'step')} passed"
    parts = [f"{number} {word}" for word, number in counted(facts.build_steps)]
    return f"{amount(count, 'step')}: {', '.join(parts)}"


def _first(cause: CauseFacts, count: int) -> str:
    jobs = amount(cause.jobs, "job")
    if count == 1:
        return f"one cause: {cause.title} ({jobs})"
    return f"{count} causes, the first: {cause.title} ({jobs})"
