# SPDX-License-Identifier: Apache-2.0
"""Pure. The checks as a table, for `ci-doctor doctor --list`."""

from collections.abc import Sequence

from ci_doctor.checks.check import DoctorCheck
from ci_doctor.model.outcome import Outcome
from ci_doctor.model.table import Table, row


def listing_outcome(checks: Sequence[DoctorCheck]) -> Outcome:
    """The id and the title of each check; nothing is judged."""
    rows = [row(check.id, check.title) for check in checks]
    table = Table(title="Checks", rows=tuple(rows))
    return Outcome(verdict=None, summary=f"{len(checks)} checks", tables=(table,))
