# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor pipeline`: a module for each command below it."""

import click

from ci_doctor.commands.group import PackageGroup


class _PipelineGroup(PackageGroup):
    package = __name__
    names = ("retry-rules",)


@click.group(
    "pipeline",
    examples={
        "ci-doctor pipeline retry-rules": "Print the retry rules of a step.",
    },
    cls=_PipelineGroup,
)
def pipeline() -> None:
    """Write the parts of a Buildkite pipeline that follow from this repository's configuration."""
