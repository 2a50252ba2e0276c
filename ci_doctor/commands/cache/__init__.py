# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor cache`: a module for each command below it."""

import click

from ci_doctor.commands.group import PackageGroup


class _CacheGroup(PackageGroup):
    package = __name__
    names = ("restore", "save", "status", "verify", "explain", "gc", "keygen")


@click.group(
    "cache",
    examples={
        "ci-doctor cache status": "Show where the caches lie.",
    },
    cls=_CacheGroup,
)
def cache() -> None:
    """Move JIT caches between jobs, and prove whether that has paid."""
