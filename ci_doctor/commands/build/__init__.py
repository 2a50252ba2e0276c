# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor build`: a module for each command below it."""

import click

from ci_doctor.commands.group import PackageGroup


class _BuildGroup(PackageGroup):
    package = __name__
    names = ("merge", "publish")


@click.group(
    "build",
    examples={
        "ci-doctor build merge --current": "In a Buildkite job: merge the reports of this build.",
    },
    cls=_BuildGroup,
)
def build() -> None:
    """Merge the reports of a build's jobs, and publish them."""
