# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor build merge`."""

import os
from pathlib import Path

from ci_doctor.commands.build.options import (
    expect_option,
    merged_build,
    paths_argument,
    require_one_source,
)
from ci_doctor.commands.documented import command, option
from ci_doctor.commands.options import config_option, output_options, pass_session
from ci_doctor.session.session import Session


@command(
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
    require_one_source("build merge", paths, current=current)
    session.claim()

    from ci_doctor.config.exit_codes import read_exit_codes
    from ci_doctor.config.loading import load_config
    from ci_doctor.session.exit_policy import ExitPolicy

    codes, _ = read_exit_codes(load_config(config_path, Path.cwd()), os.environ)
    session.policy = ExitPolicy(codes=codes)
    build = merged_build(paths, expect)
    session.speak_of(build.about)
    return session.finish(build.outcome, on_stdout=True)
