# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor build publish`."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from ci_doctor.commands.build.options import expect_option, merged_build, paths_argument
from ci_doctor.commands.documented import command, option
from ci_doctor.commands.options import config_option, output_options, pass_session
from ci_doctor.session.printing import say
from ci_doctor.session.session import Session

if TYPE_CHECKING:
    from ci_doctor.build.current import BuildOutcome
    from ci_doctor.model.report import Report
    from ci_doctor.session.exit_policy import ExitPolicy


@command(
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

    session.policy = _policy(config_path, exit_code=exit_code)
    own_job = os.environ.get("BUILDKITE_JOB_ID") or None
    api_time = ApiTime.of_job(os.environ)
    build = merged_build(paths, expect, own_job=own_job, api_time=api_time)
    # Not below $CI_DOCTOR_REPORT_DIR: the plugin would publish it as a report of this job.
    if session.named_directory is not None:
        session.claim()
    session.speak_of(build.about)
    report = _report(session, build)
    code = session.finish(build.outcome, on_stdout=True)
    for line in publish_build(report, os.environ, api_time=api_time):
        say(f"ci-doctor: {line}\n")
    return code


def _report(session: Session, build: "BuildOutcome") -> "Report":
    """What is published: on a full disk it is not the report that could be written."""
    from ci_doctor.session.making import make_report

    report = make_report(
        build.outcome, (), session.invocation, about=session.about, policy=session.policy
    )
    return session.redactor.report(report)


def _policy(config_path: Path | None, *, exit_code: bool) -> "ExitPolicy":
    from ci_doctor.config.exit_codes import read_exit_codes
    from ci_doctor.config.loading import load_config
    from ci_doctor.model.verdict import Verdict
    from ci_doctor.session.exit_policy import ExitPolicy

    if not exit_code:
        return ExitPolicy(let_through=frozenset(Verdict))
    codes, _ = read_exit_codes(load_config(config_path, Path.cwd()), os.environ)
    return ExitPolicy(codes=codes)
