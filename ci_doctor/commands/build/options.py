# SPDX-License-Identifier: Apache-2.0
"""Reads the command line: what the commands below `ci-doctor build` share."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ci_doctor.commands import completion_values as values
from ci_doctor.commands.documented import option
from ci_doctor.errors import UsageError

if TYPE_CHECKING:
    from ci_doctor.build.current import BuildOutcome
    from ci_doctor.buildkite.agent import ApiTime

paths_argument = click.argument(
    "paths",
    nargs=-1,
    metavar="[PATH]…",
    type=click.Path(path_type=Path),
    shell_complete=values.files,
)
expect_option = option(
    "--expect",
    multiple=True,
    metavar="STEP",
    help="A step that must have a report: its key, its label, or a pattern. Repeatable.",
)


def require_one_source(command: str, paths: tuple[Path, ...], *, current: bool) -> None:
    """Raises UsageError if `command` has PATHs and --current, or neither."""
    if bool(paths) is current:
        raise UsageError(
            f"`{command}` needs PATHs, or --current in a Buildkite job",
            hint="give one of the two: a folder with the artifacts of a build, or --current",
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
    from ci_doctor.build.current import MergeRequest, merge_build, merge_current

    if not paths:
        return merge_current(os.environ, expect, api_time=api_time)
    return merge_build(MergeRequest(paths=paths, expect=expect, own_job=own_job))
