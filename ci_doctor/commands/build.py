# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor build`, and the commands below it."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ci_doctor.commands.documented import (
    Group,
    config_option,
    load_configuration,
    option,
    output_options,
    pass_session,
)
from ci_doctor.errors import UsageError
from ci_doctor.session.printing import say
from ci_doctor.session.session import Session

if TYPE_CHECKING:
    from ci_doctor.build.current import BuildOutcome
    from ci_doctor.buildkite.agent import ApiTime
    from ci_doctor.model.outcome import Outcome, Report


@click.group(
    "build",
    examples={
        "ci-doctor build merge --current": "In a Buildkite job: merge the reports of this build.",
    },
    cls=Group,
)
def build() -> None:
    """Merge the reports of a build's jobs, and publish them."""


paths_argument = click.argument(
    "paths",
    nargs=-1,
    metavar="[PATH]…",
    type=click.Path(path_type=Path),
)
expect_option = option(
    "--expect",
    multiple=True,
    metavar="STEP",
    help="A step that must have a report: its key, its label, or a pattern. Repeatable.",
)


def merged_build(
    paths: tuple[Path, ...],
    expect: tuple[str, ...] = (),
    *,
    own_job: str | None = None,
    api_time: "ApiTime | None" = None,
) -> "BuildOutcome":
    """The build whose files lie at `paths`, or without any the build of this job.

    own_job: the id of a job whose files at `paths` are left out. api_time: what is left of it in
    this process. Raises UsageError for a path that
    does not exist, and without paths outside a Buildkite job.
    """
    from ci_doctor.build.current import merge_build, merge_current

    if not paths:
        return merge_current(os.environ, expect, api_time=api_time)
    return merge_build(paths, expect=expect, own_job=own_job)


@build.command(
    "merge",
    examples={
        "ci-doctor build merge artifacts --report-dir merged": "Merge the reports below a folder.",
        "ci-doctor build merge --current --expect correctness": "In a Buildkite job: merge this build, and require one step's report.",
    },
    exits={
        0: "the worst verdict is pass or flaky",
        1: "the worst verdict is regression or failed",
        75: "the worst verdict is infra",
        85: "the worst verdict is nondeterministic",
        86: "the worst verdict is inconclusive or void, or a report is missing",
    },
)
@paths_argument
@option(
    "--current", is_flag=True, help="Merge the artifacts of the build that this job belongs to."
)
@expect_option
@config_option
@output_options
@pass_session
def merge(
    session: Session,
    /,
    *,
    paths: tuple[Path, ...],
    current: bool,
    expect: tuple[str, ...],
    config_path: Path | None,
) -> int:
    """Make one report of parallel jobs, a matrix or a whole build.

    A PATH is a folder, searched for `job.json` and `report.json`, or such a file. The worst verdict
    among the last attempts decides; a missing report counts as `void`.
    """
    if bool(paths) is current:
        raise UsageError(
            "`build merge` needs PATHs, or --current in a Buildkite job",
            hint="give one of the two: a folder with the artifacts of a build, or --current",
        )
    session.claim()

    load_configuration(session, config_path)
    outcome, about = merged_build(paths, expect)
    session.speak_of(about)
    return session.finish(outcome, on_stdout=True)


@build.command(
    "publish",
    examples={
        "ci-doctor build publish": "In the last step of a build: publish its annotation, page and meta-data.",
        "ci-doctor build publish --exit-code --expect 'correctness-*'": "Let the verdict of the build decide, and require reports.",
    },
    exits={
        0: "published; with --exit-code the worst verdict is pass or flaky",
        1: "--exit-code: the worst verdict is regression or failed",
        75: "--exit-code: the worst verdict is infra",
        85: "--exit-code: the worst verdict is nondeterministic",
        86: "--exit-code: the worst verdict is inconclusive or void, or a report is missing",
    },
)
@paths_argument
@expect_option
@option(
    "--exit-code",
    is_flag=True,
    help="End with the exit code of the build's verdict. [default: 0 whatever it is]",
)
@config_option
@output_options
@pass_session
def publish(
    session: Session,
    /,
    *,
    paths: tuple[Path, ...],
    expect: tuple[str, ...],
    exit_code: bool,
    config_path: Path | None,
) -> int:
    """Merge this build; publish its annotation, page and meta-data.

    For the last step of a build, in which `buildkite-agent` is all that is needed. Merges the files
    at PATHs, or without any the artifacts of this build.
    """
    from ci_doctor.build.current import publish_build
    from ci_doctor.buildkite.agent import ApiTime
    from ci_doctor.model.outcome import Verdict
    from ci_doctor.session.delivery import ExitPolicy

    if exit_code:
        load_configuration(session, config_path)
    else:
        session.policy = ExitPolicy(let_through=frozenset(Verdict))
    own_job = os.environ.get("BUILDKITE_JOB_ID") or None
    api_time = ApiTime.of_job(os.environ)
    outcome, about = merged_build(paths, expect, own_job=own_job, api_time=api_time)
    # Not below $CI_DOCTOR_REPORT_DIR: the plugin would publish it as a report of this job.
    if session.named_directory is not None:
        session.claim()
    session.speak_of(about)
    report = _report(session, outcome)
    code = session.finish(outcome, on_stdout=True)
    for line in publish_build(report, os.environ, api_time=api_time):
        say(f"ci-doctor: {line}\n")
    return code


def _report(session: Session, outcome: "Outcome") -> "Report":
    """What is published: on a full disk it is not the report that could be written."""
    from ci_doctor.session.delivery import make_report

    report = make_report(
        outcome, (), session.invocation, about=session.about, policy=session.policy
    )
    return session.redactor.report(report)
