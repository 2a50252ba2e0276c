# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor history`: a module for each command below it."""

import click

from ci_doctor.commands.group import PackageGroup


class _HistoryGroup(PackageGroup):
    package = __name__
    names = (
        "ingest",
        "flaky",
        "test",
        "began",
        "quarantine",
        "report",
        "prune",
        "upgrade",
    )


@click.group(
    "history",
    examples={
        "ci-doctor history ingest reports/": "Read the reports of some jobs.",
        "ci-doctor history flaky": "List the flaky tests.",
    },
    cls=_HistoryGroup,
)
def history() -> None:
    """Keep every attempt of every test, and ask which are flaky, and since when."""
