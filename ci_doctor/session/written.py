# SPDX-License-Identifier: Apache-2.0
"""Acts on files and the agent: reads reports that were written, and publishes them on Buildkite."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ci_doctor.errors import UsageError
from ci_doctor.model.report import Report

if TYPE_CHECKING:
    from ci_doctor.model.job_record import JobRecord


def read_reports(
    directories: Sequence[Path], broken: list[str] | None = None
) -> list[tuple[Path, Report]]:
    """Every report.json below `directories`, oldest first, each with its directory; no secrets.

    Raises UsageError for one that cannot be read, or appends a line to `broken` if that is given.
    """
    from ci_doctor.render import json
    from ci_doctor.system.secrets.redaction import Redactor

    redactor = Redactor.from_environment(os.environ)
    reports: list[tuple[Path, Report]] = []
    for path in _files(directories):
        try:
            text = path.read_text(encoding="utf-8")
            # Once more: an older version, or somebody else, may have written it.
            report = redactor.report(json.parse(text))
        except (UsageError, OSError, UnicodeDecodeError) as error:
            if broken is None:
                raise UsageError(
                    f"{path}: {error}", hint="name the --report-dir of a command that ended"
                ) from error
            broken.append(f"ci-doctor: {path} is not published: {error}")
        else:
            reports.append((path.parent, report))
    # RFC 3339 in UTC: the order of the texts is that of the times.
    return sorted(reports, key=lambda each: each[1].started_at)


def _files(directories: Sequence[Path]) -> list[Path]:
    files: set[Path] = set()
    for directory in directories:
        files.update(directory.rglob("report.json"))
    return sorted(files)


def publish_all(
    reports: Sequence[tuple[Path, Report]],
    *,
    annotate: bool,
    at_end: bool = False,
    record: "JobRecord | None" = None,
    root: Path | None = None,
) -> list[str]:
    """Publish on Buildkite, and return a line for each thing that did not work.

    `at_end`: the job is over, and its status counts too. `record` is what is known of the job then;
    its file lies in `root`, where it is published from. Never raises for the agent's failures.
    """
    from ci_doctor.buildkite.agent import Agent
    from ci_doctor.buildkite.job import JobEnd, JobEnvironment, work_of
    from ci_doctor.buildkite.publish import publish
    from ci_doctor.session.job_record import with_others
    from ci_doctor.session.published_folders import published_elsewhere
    from ci_doctor.session.step_publishing import budget_s, published_job, step_shown

    job = JobEnvironment.from_environ(os.environ)
    if job is not None:
        job = replace(job, work=work_of(os.environ))
    end = JobEnd.from_environ(os.environ) if at_end else None
    agent = Agent.find(os.environ, budget_s=budget_s(end))
    if job is None or agent is None:
        # Not a word in a job whose commands made no report.
        if at_end and not reports:
            return []
        return [
            "ci-doctor: not a Buildkite job, or no buildkite-agent on PATH: nothing is published"
        ]
    others = _read_again(published_elsewhere(job.job_id, [folder for folder, _ in reports]))
    if record is not None:
        record = with_others(record, [report for _, report in others])
    published = published_job(reports, end, record, root)
    show = step_shown([*reports, *others], job, end, record) if annotate else None
    results = publish(published, job, agent, show)
    return [f"ci-doctor: {result.message}" for result in results if not result.ok]


def _read_again(directories: Sequence[Path]) -> list[tuple[Path, Report]]:
    """The reports that lie in `directories` themselves; one that is gone is none."""
    # A broken one has been named by the call that published it.
    reports = read_reports(directories, broken=[])
    return [(folder, report) for folder, report in reports if folder in directories]
