# SPDX-License-Identifier: Apache-2.0
"""Pure. A merged build -> tables, for those who read it as text."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from ci_doctor.build.times import duration_s
from ci_doctor.build.wording import clipped, listed
from ci_doctor.model.facts.build import BuildFacts, JobFacts, RetryWorth, StepFacts
from ci_doctor.model.table import Row, Table, row, seconds
from ci_doctor.model.verdict import ordered
from ci_doctor.render.build_annotation import another_run, step_ending

_SHOWN: Final = 15
_WORTHS: Final = {
    RetryWorth.HELPED: "helped",
    RetryWorth.HID_A_FAILURE: "hid a failure",
    RetryWorth.IN_VAIN: "in vain",
    RetryWorth.UNKNOWN: "unknown",
}

# Whether a retry helps, in words short enough for a terminal of 80 columns.
_RETRY: Final = {"may help": "yes", "does not help": "no", "unknown": "?"}


def tables_of(facts: BuildFacts) -> tuple[Table, ...]:
    """Steps by their ending, causes, retries, the critical path; each only if it has a row.

    They stand below the findings, which say what to do.
    """
    tables = (_steps(facts), _causes(facts), _retries(facts), _path(facts))
    return tuple(table for table in tables if table.rows)


def _steps(facts: BuildFacts) -> Table:
    by_ending: dict[str, list[str]] = defaultdict(list)
    for step in facts.build_steps:
        by_ending[step_ending(step)].append(step.name)
    rows = [row(word, len(by_ending[word]), listed(by_ending[word])) for word in ordered(by_ending)]
    return Table(title="Steps", rows=tuple(rows), is_aside=True)


def _causes(facts: BuildFacts) -> Table:
    rows = []
    for cause in facts.causes[:_SHOWN]:
        title = clipped(cause.title, 80)
        lost = (seconds(cause.seconds), seconds(cause.gpu_seconds))
        rows.append(row(title, cause.jobs, *lost, _RETRY[another_run(cause)]))
    rows += _rest(len(facts.causes))
    columns = ("jobs", "time", "GPU time", "retry")
    return Table(title="Causes", columns=columns, rows=tuple(rows), is_aside=True)


def _retries(facts: BuildFacts) -> Table:
    by_worth: dict[RetryWorth, list[str]] = defaultdict(list)
    for step in facts.build_steps:
        for job in step.attempts:
            if job.retry is not None:
                by_worth[job.retry].append(step.name)
    rows = []
    for worth, words in _WORTHS.items():
        names = by_worth[worth]
        if names:
            rows.append(row(words, len(names), listed(list(dict.fromkeys(names)))))
    return Table(title="Retries", rows=tuple(rows), is_aside=True)


def _path(facts: BuildFacts) -> Table:
    known = dict(_jobs(facts.build_steps))
    rows = []
    for job_id in facts.critical_path[:_SHOWN]:
        step, job = known[job_id]
        label = step.name if len(step.attempts) == 1 else f"{step.name}, attempt {job.attempt + 1}"
        rows.append(row(label, seconds(duration_s(job))))
    rows += _rest(len(facts.critical_path))
    title = "Critical path, estimated from times"
    return Table(title=title, columns=("time",), rows=tuple(rows), is_aside=True)


def _jobs(steps: Iterable[StepFacts]) -> Iterable[tuple[str, tuple[StepFacts, JobFacts]]]:
    for step in steps:
        for job in step.attempts:
            if job.job is not None:
                yield job.job, (step, job)


def _rest(count: int) -> list[Row]:
    return [Row(label=f"and {count - _SHOWN} more")] if count > _SHOWN else []
