# SPDX-License-Identifier: Apache-2.0
"""From an experiment to the report of `ci-doctor correctness`."""

import os
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import to_builtins
from msgspec.structs import replace

from ci_doctor.commands.correctness_job import Job
from ci_doctor.commands.invocation import Invocation
from ci_doctor.correctness.archive.use import keep_baseline
from ci_doctor.correctness.conclude import judge, report_fields
from ci_doctor.correctness.evidence.files import SAMPLES
from ci_doctor.correctness.results import Ending, Experiment
from ci_doctor.correctness.settings import Arm, CorrectnessSettings, OnInconclusive
from ci_doctor.correctness.verdict.decision import Decision
from ci_doctor.identity.identity import differences
from ci_doctor.model.exit_code import ExitCode
from ci_doctor.model.finding import Evidence, Finding, Severity
from ci_doctor.model.outcome import Failure
from ci_doctor.model.report import Report
from ci_doctor.model.table import Table, text_table
from ci_doctor.model.verdict import Verdict, exit_code
from ci_doctor.system.repository import checkout

INTERRUPTIONS = {Ending.SIGINT, Ending.SIGTERM, Ending.SIGHUP, Ending.SIGQUIT}
# What a budget keeps back for stopping and for the report, where it is long enough.
_RESERVE_S = 12.0


def report_of(job: Job, experiment: Experiment, invocation: Invocation) -> Report:
    """What the experiment means."""
    directory = job.plan.directory
    decision = judge(experiment, job.context, _settles(job, experiment, invocation))
    if _is_let_through(decision.verdict, job.settings):
        decision = replace(
            decision,
            risk="on_inconclusive = pass lets through any regression that was not yet told apart",
        )
    fields = report_fields(
        experiment,
        decision,
        job.context,
        samples=directory / SAMPLES,
        directory=directory,
        noticed=job.noticed,
    )
    if experiment.ending in INTERRUPTIONS:
        return _interrupted(experiment, invocation, fields)
    fields["facts"] |= {
        "repository": to_builtins(checkout(Path.cwd())),
        **_more_facts(job, experiment, decision),
    }
    fields["facts"]["identity"] = _identity(fields["facts"]["identity"], job)
    fields["tables"] = (*fields["tables"], *_archive_section(job, fields["facts"]))
    fields["findings"] = (
        *fields["findings"],
        *_different_arms(decision, fields["facts"]["identity"]),
    )
    code = _code(decision.verdict, job.codes, job.settings)
    return invocation.report(
        verdict=decision.verdict, exit_code=code, summary=_summary(decision, job), **fields
    )


def _more_facts(job: Job, experiment: Experiment, decision: Decision) -> dict[str, Any]:
    """What only the command knows: identities, schedule, time, archive."""
    made = " ".join(result.start.name for result in experiment.results if result.counts)
    facts: dict[str, Any] = {
        "schedule": {"order": " ".join(arm.letter for arm in job.pace.order), "made": made},
        "caches": job.plan.caches.value,
        "budget": {"seconds": round(job.plan.deadline - job.plan.started, 1)},
    }
    if job.shelf:
        samples = job.plan.directory / SAMPLES
        facts["archive"] = list(
            keep_baseline(job.shelf, experiment, decision.verdict, samples, os.environ)
        )
    return facts


def _identity(seen: dict[str, Any], job: Job) -> dict[str, Any]:
    """What the machine and the baseline are, with what was `seen` in its starts, and where the candidate is another."""
    baseline, candidate = (job.identities[arm] for arm in Arm)
    return {
        "facts": {**baseline.facts, **baseline.noted, **seen["facts"]},
        "unknown": sorted({*seen["unknown"], *baseline.unknown}),
        "why_unknown": dict(baseline.unknown),
        "differences": seen["differences"],
        "arms": {each.fact: [each.left, each.right] for each in differences(baseline, candidate)},
    }


def _archive_section(job: Job, facts: dict[str, Any]) -> Iterator[Table]:
    """What was found in the archive, and what was put there."""
    if job.shelf:
        yield text_table(title="Archive", lines=(*job.shelf.notes(), *facts.get("archive", ())))


def _different_arms(decision: Decision, identity: dict[str, Any]) -> Iterator[Finding]:
    """What the arms do not have in common, where they differ in what they say."""
    arms: dict[str, list[str | None]] = identity["arms"]
    if (
        decision.verdict in {Verdict.REGRESSION, Verdict.INCONCLUSIVE, Verdict.NONDETERMINISTIC}
        and arms
    ):
        lines = [
            f"{fact}: {left or 'absent'} -> {right or 'absent'}"
            for fact, (left, right) in arms.items()
        ]
        yield Finding(
            rule="correctness/different-arms",
            severity=Severity.NOTE,
            summary=f"the arms differ in {', '.join(list(arms)[:4])}"
            + (" and more" if len(arms) > 4 else ""),
            evidence=(Evidence(excerpt="\n".join(lines)),),
            remedy="whatever is not the change under test should be the same in both",
        )


def _settles(job: Job, experiment: Experiment, invocation: Invocation) -> str:
    return job.pace.settles(experiment.results, invocation.argv, job.context.run, _RESERVE_S)


def _summary(decision: Decision, job: Job) -> str:
    return (
        f"{decision.reason}; let through"
        if _is_let_through(decision.verdict, job.settings)
        else decision.reason
    )


def _is_let_through(verdict: Verdict, settings: CorrectnessSettings) -> bool:
    return verdict is Verdict.INCONCLUSIVE and settings.on_inconclusive is OnInconclusive.PASS


def _code(verdict: Verdict, codes: Mapping[str, int], settings: CorrectnessSettings) -> int:
    """The exit code, in the repository's own numbers; what passes stays 0."""
    if _is_let_through(verdict, settings):
        return int(ExitCode.PASS)
    own = exit_code(verdict, fail_on_flaky=settings.fail_on_flaky)
    return own if own == ExitCode.PASS else codes.get(verdict.value, own)


def _interrupted(experiment: Experiment, invocation: Invocation, fields: dict[str, Any]) -> Report:
    """The report of an experiment that a signal ended: what was gathered, and no verdict."""
    code = ExitCode.SIGINT if experiment.ending is Ending.SIGINT else ExitCode.SIGTERM
    message = f"interrupted by {experiment.ending} after {len(experiment.starts)} starts; every process was stopped"
    return invocation.report(
        verdict=None,
        error=Failure(
            message=message,
            hint="what was answered until then is in samples.jsonl; --resume DIR goes on with the finished starts",
        ),
        exit_code=code,
        summary=message,
        **{**fields, "findings": (), "cases": ()},
    )


def dry_report(job: Job, invocation: Invocation) -> Report:
    """What would be started, and nothing done."""
    planned = job.plan
    lines = [
        f"{arm}: {name}: {shlex.join(planned.arms[arm].specs[name].words())}"
        for arm in Arm
        for name in planned.arms[arm].names
    ]
    order = " ".join(arm.letter for arm in job.pace.order)
    summary = f"would ask {len(planned.requests)} requests of up to {planned.rules.retries} candidate starts"
    return invocation.report(
        verdict=None,
        error=Failure(
            message="a dry run starts nothing", hint="run it without --dry-run for a verdict"
        ),
        exit_code=ExitCode.PASS,
        summary=summary,
        tables=(
            text_table(title="Services", lines=tuple(lines)),
            text_table(
                title="Schedule", lines=(order, *job.notes, job.pace.outlook((), planned.started))
            ),
        ),
    )
