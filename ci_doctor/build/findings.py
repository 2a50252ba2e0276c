# SPDX-License-Identifier: Apache-2.0
"""Pure. What is wrong with a merged build: its causes, its retries, and gaps in what is known."""

from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Final

from ci_doctor.build.collect import JobFiles, Material
from ci_doctor.build.job_attempt import JobAttempt, known, verdict_of_files, verdict_of_record
from ci_doctor.build.merge import (
    BuildCause,
    BuildStep,
    FailedAttempt,
    MergedBuild,
    amount,
    clipped,
    lies_outside,
    listed,
    spent,
    worths_of_retries,
)
from ci_doctor.model.facts.build import RetryWorth
from ci_doctor.model.outcome import MISSING, Evidence, Finding, Rule, Severity, is_green

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
