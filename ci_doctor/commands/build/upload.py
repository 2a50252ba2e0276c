# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor build upload`."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from ci_doctor.commands.build.options import merged_build, paths_argument, require_one_source
from ci_doctor.commands.documented import command, option
from ci_doctor.commands.options import output_options, pass_session
from ci_doctor.errors import UsageError
from ci_doctor.session.printing import say
from ci_doctor.session.session import Session

if TYPE_CHECKING:
    from ci_doctor.build.run import BuildOutcome
    from ci_doctor.model.facts.build_upload import BuildUploadFacts


_UNAUTHORIZED = (
    "nothing is uploaded: BUILDKITE_ANALYTICS_TOKEN is not set, and the agent gave no token "
    "(--suite names the suite for one)"
)


@command(
    "upload",
    examples={
        "ci-doctor build upload --current --test-engine --suite serving": "In a Buildkite job: upload the results of this build.",
    },
)
@paths_argument
@option("--current", is_flag=True, help="Upload the results of the build of this job.")
@option("--test-engine", is_flag=True, help="Upload to Buildkite Test Engine.")
@option(
    "--suite",
    metavar="SLUG",
    help="The suite, for a token by OpenID Connect. Without it, $BUILDKITE_ANALYTICS_TOKEN counts.",
)
@output_options
@pass_session
def upload(
    session: Session,
    /,
    *,
    paths: tuple[Path, ...],
    current: bool,
    test_engine: bool,
    suite: str | None,
) -> int:
    """Upload each attempt of each test case, with our verdicts as tags.

    A PATH is a folder, searched for `job.json` and `report.json`, or such a file. An upload that
    fails is a warning, and the exit code is 0.
    """
    if not test_engine:
        raise UsageError(
            "`build upload` needs to know where to", hint="give --test-engine; there is no other"
        )
    require_one_source("build upload", paths, current=current)
    from ci_doctor.build.engine_token import engine_token
    from ci_doctor.build.upload_outcome import outcome_of_upload
    from ci_doctor.model.facts.build_upload import BuildUploadFacts

    if session.named_directory is not None:
        session.claim()
    token = engine_token(os.environ, suite)
    if token is None:
        uploaded = BuildUploadFacts(problems=(_UNAUTHORIZED,))
    else:
        uploaded = _upload(session, _checked(session, paths), token)
    _say(uploaded)
    if session.as_json or session.named_directory is not None:
        # What a person reads is said already.
        session.finish(outcome_of_upload(uploaded), on_stdout=True, text="")
    return 0


def _checked(session: Session, paths: tuple[Path, ...]) -> "BuildOutcome":
    build = merged_build(paths)
    _say_gaps(session, build)
    return build


def _say_gaps(session: Session, build: "BuildOutcome") -> None:
    """What could not be read is not uploaded, and nobody else says so."""
    from ci_doctor.build import rules
    from ci_doctor.render.safe_text import one_line, printable

    for finding in build.outcome.findings:
        if finding.rule in rules.GAPS:
            summary = one_line(printable(session.redactor.text(finding.summary)))
            say(f"ci-doctor: warning: {summary}\n")


def _upload(session: Session, build: "BuildOutcome", token: str) -> "BuildUploadFacts":
    from ci_doctor.build.engine_upload import run_environment, upload
    from ci_doctor.build.test_engine import executions
    from ci_doctor.session.making import make_report
    from ci_doctor.version import tool_version

    about = build.about or session.about
    report = make_report(build.outcome, (), session.invocation, about=about, policy=None)
    results = tuple(executions(session.redactor.report(report)))
    run = run_environment(os.environ, version=tool_version())
    return upload(results, os.environ, token=token, run=session.redactor.value(run))


def _say(uploaded: "BuildUploadFacts") -> None:
    from ci_doctor.build.upload_outcome import summary_of

    for problem in uploaded.problems:
        say(f"ci-doctor: warning: {problem}\n")
    if uploaded.queued or not uploaded.problems:
        say(f"ci-doctor: {summary_of(uploaded)}\n")
