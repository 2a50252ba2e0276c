# SPDX-License-Identifier: Apache-2.0
"""Pure. Findings about what is missing, claimed twice or contradictory in a merged build."""

from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Final

from ci_doctor.build import rules, states
from ci_doctor.build.job_attempt import JobAttempt
from ci_doctor.build.job_files import JobFiles
from ci_doctor.build.job_verdict import verdict_of_files, verdict_of_record
from ci_doctor.build.merge import MergedBuild
from ci_doctor.build.verdicts import known
from ci_doctor.build.wording import amount, clipped, listed
from ci_doctor.model.finding import Evidence, Finding, Rule
from ci_doctor.model.verdict import MISSING, is_green

_MOST_NAMED: Final = 20


def gap_findings(merged: MergedBuild, problems: Sequence[str]) -> Iterator[Finding]:
    """One finding a kind of gap, or one a thing where each has a reason of its own."""
    yield from _nothing(merged)
    yield from _missing(merged)
    yield from _unreadable(merged)
    for problem in problems:
        yield rules.INCOMPLETE.finding(clipped(problem))
    if merged.builds > 1:
        yield rules.SEVERAL_BUILDS.finding(f"the reports are of {merged.builds} different builds")
    yield from _bounded(list(_claimed_twice(merged)), rules.CLAIMED_TWICE)
    yield from _bounded(list(_contradictions(merged)), rules.CONTRADICTION)
    yield from _silent(merged)
    yield from _without_record(merged)
    yield from _absent_attempts(merged)
    yield from _listed_absent(merged)


def _bounded(findings: Sequence[Finding], rule: Rule) -> Iterator[Finding]:
    """The first twenty, and one that counts the rest."""
    yield from findings[:_MOST_NAMED]
    rest = len(findings) - _MOST_NAMED
    if rest > 0:
        yield rule.finding(f"{rest} more of the kind; report.json has all jobs")


def _nothing(merged: MergedBuild) -> Iterator[Finding]:
    if not merged.steps:
        yield rules.NOTHING.finding("no record and no report of a job was read")


def _missing(merged: MergedBuild) -> Iterator[Finding]:
    for each in merged.missing[:_MOST_NAMED]:
        yield rules.MISSING_REPORT.finding(clipped(f"{each.name}: {each.reason}"))
    rest = [each.name for each in merged.missing[_MOST_NAMED:]]
    if rest:
        summary = f"{amount(len(rest), 'more report')} missing: {listed(rest)}"
        yield rules.MISSING_REPORT.finding(summary)


def _unreadable(merged: MergedBuild) -> Iterator[Finding]:
    files = sorted(merged.material.unreadable, key=lambda each: each.place)
    if not files:
        return
    shown = files[:_MOST_NAMED]
    evidence = [Evidence(file=each.place, excerpt=clipped(each.problem, 300)) for each in shown]
    summary = f"{amount(len(files), 'file')} could not be read as a record or a report"
    yield rules.UNREADABLE.finding(summary, evidence=tuple(evidence))


def _claimed_twice(merged: MergedBuild) -> Iterator[Finding]:
    for step in merged.steps:
        for number in step.claimed_twice():
            jobs = [each for each in step.attempts if each.facts.attempt == number]
            summary = f"{len(jobs)} jobs claim to be attempt {number + 1} of {step.name}"
            yield rules.CLAIMED_TWICE.finding(summary, evidence=_jobs(jobs))


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
            yield rules.CONTRADICTION.finding(summary, evidence=evidence)
        own = _own_verdict(files)
        if own is not None and _is_greener_than_a_report(files):
            evidence = (Evidence(file=files.place),)
            summary = f"the record of job {files.job} says {own}, and a report of it does not"
            yield rules.CONTRADICTION.finding(summary, evidence=evidence)
        if own is not None and known(own) != own:
            summary = f"the record of job {files.job} has a verdict that nobody knows"
            evidence = (Evidence(file=files.place, excerpt=clipped(own, 100)),)
            yield rules.UNREADABLE.finding(summary, evidence=evidence)
    yield from _contradicted_by_api(merged)


def _is_greener_than_a_report(files: JobFiles) -> bool:
    if files.record is None:
        return False
    own = verdict_of_record(files.record.record, [each.report for each in files.reports])
    return is_green(own) and not is_green(verdict_of_files(files))


def _own_verdict(files: JobFiles) -> str | None:
    return None if files.record is None else files.record.record.verdict


def _contradicted_by_api(merged: MergedBuild) -> Iterator[Finding]:
    greener = {each.job for each in merged.files if is_green(verdict_of_files(each))}
    for step in merged.steps:
        for attempt in step.attempts:
            facts = attempt.facts
            if attempt.is_reported and facts.job in greener and not is_green(facts.verdict):
                summary = f"{step.name} passed by its report, and is `{attempt.state}` on Buildkite"
                yield rules.CONTRADICTION.finding(summary, evidence=_jobs([attempt]))


def _silent(merged: MergedBuild) -> Iterator[Finding]:
    passed, tolerated = [], []
    for step in merged.steps:
        last = [each for each in step.last if each.facts.verdict == MISSING]
        if any(each.is_soft_failed for each in last):
            tolerated.append(step.name)
        elif any(states.has_passed(each.state) for each in last):
            passed.append(step.name)
    if passed:
        summary = f"{amount(len(passed), 'step')} passed without a report: {listed(passed)}"
        yield rules.UNREPORTED_PASS.finding(summary)
    if tolerated:
        steps = amount(len(tolerated), "step")
        yield rules.TOLERATED.finding(
            f"{steps} failed softly without a report: {listed(tolerated)}"
        )


def _without_record(merged: MergedBuild) -> Iterator[Finding]:
    """Not if no job has one: then reports are merged that no plugin has made."""
    if not any(files.record is not None for files in merged.files):
        return
    places = [files.place for files in merged.files if files.record is None]
    if places:
        summary = f"{amount(len(places), 'job')} with a report and no record: {listed(places)}"
        yield rules.END_UNKNOWN.finding(summary)


def _absent_attempts(merged: MergedBuild) -> Iterator[Finding]:
    absent = []
    for step in merged.steps:
        numbers = [str(number + 1) for number in step.absent_attempts()]
        if numbers:
            absent.append(f"{step.name} (attempt {listed(numbers)})")
    if absent:
        summary = f"no report of an earlier attempt of {listed(absent)}"
        yield rules.ABSENT_ATTEMPT.finding(summary)


def _listed_absent(merged: MergedBuild) -> Iterator[Finding]:
    absent = [name for files in merged.files for name in _absent_reports(files)]
    if absent:
        summary = f"{amount(len(absent), 'report')} of job records not there: {listed(absent)}"
        yield rules.LISTED_ABSENT.finding(summary)


def _absent_reports(files: JobFiles) -> list[str]:
    if files.record is None:
        return []
    above = PurePosixPath(files.record.folder)
    present = {str(PurePosixPath(each.place).parent) for each in files.reports}
    expected = [str(above / name) for name in files.record.record.reports]
    return [clipped(place, 200) for place in expected if place not in present]
