# SPDX-License-Identifier: Apache-2.0
"""Pure. What a problem with a cache means for the exit code: nothing, unless somebody is strict."""

from collections.abc import Sequence

from ci_doctor.model.finding import Finding
from ci_doctor.model.verdict import Verdict


def verdict_of(
    findings: Sequence[Finding], worst: Verdict | None, *, strict: bool
) -> Verdict | None:
    """`worst` of a strict command, `pass` if nothing is wrong there; None of any other."""
    if not strict:
        return None
    return worst if worst is not None and findings else Verdict.PASS


def worst_of(verdicts: Sequence[Verdict | None]) -> Verdict | None:
    """Refused content first, then what could not be reached, then what is missing."""
    for verdict in (Verdict.FAILED, Verdict.INFRA, Verdict.VOID):
        if verdict in verdicts:
            return verdict
    return None
