# SPDX-License-Identifier: Apache-2.0
"""Acts on files and the agent: reads reports that were written, and publishes them on Buildkite."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ci_doctor.errors import UsageError
from ci_doctor.model.report import Report

if TYPE_CHECKING:
    from ci_doctor.buildkite.annotations import Annotation


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
    reports: Sequence[tuple[Path, Report]], *, annotate: bool, at_end: bool = False
) -> list[str]:
    """Publish on Buildkite, and return a line for each thing that did not work.

    `at_end`: the job is over, and its status counts too. Never raises for the agent's failures.
    """
    from ci_doctor.buildkite.agent import Agent
    from ci_doctor.buildkite.job import JobEnvironment
    from ci_doctor.buildkite.job_end import JobEnd
    from ci_doctor.buildkite.publish import publish

    job = JobEnvironment.from_environ(os.environ)
    agent = Agent.find(os.environ)
    if job is None or agent is None:
        # Not a word in a job whose commands made no report.
        if at_end and not reports:
            return []
        return [
            "ci-doctor: not a Buildkite job, or no buildkite-agent on PATH: nothing is published"
        ]
    results = publish(
        reports,
        job,
        agent,
        _annotation if annotate else None,
        end=JobEnd.from_environ(os.environ) if at_end else None,
    )
    return [f"ci-doctor: {result.message}" for result in results if not result.ok]


def _annotation(report: Report, folder: str) -> "Annotation":
    from ci_doctor.buildkite.annotations import Annotation
    from ci_doctor.render import markdown

    body = markdown.render(report, artifacts=folder)
    return Annotation(body=body, style=markdown.annotation_style(report))
