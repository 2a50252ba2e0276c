# SPDX-License-Identifier: Apache-2.0
"""Reads a database: the number of a branch."""

import sqlalchemy as sa

from ci_doctor.errors import UsageError
from ci_doctor.history.schema import ALL_BRANCHES, BRANCH


def branch_number(connection: sa.Connection, name: str | None) -> int:
    """The number of the branch `name`; ALL_BRANCHES for None. Raises UsageError for an unknown one."""
    if name is None:
        return ALL_BRANCHES
    number = connection.scalar(sa.select(BRANCH.c.id).where(BRANCH.c.name == name))
    if number is None:
        raise UsageError(
            f"no attempt of the history ran on the branch `{name}`",
            hint="leave --branch out to ask about all branches",
        )
    return int(number)
