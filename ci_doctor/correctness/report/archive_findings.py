# SPDX-License-Identifier: Apache-2.0
"""What a report says of the archive beside today's starts. Pure."""

import shlex
from collections.abc import Iterator, Sequence

from ci_doctor.correctness import rules
from ci_doctor.correctness.verdict.compare import ArchiveDrift, drift_of
from ci_doctor.correctness.verdict.starts import ArmStart, independent_builds
from ci_doctor.model.facts.archive import ArchiveDriftFacts, ArchiveUseFacts
from ci_doctor.model.finding import Finding, ShellCommand
from ci_doctor.render.formatting import amount


def archive_use(starts: Sequence[ArmStart]) -> ArchiveUseFacts | None:
    """How many archived starts there are, of how many builds, and their drift; None without any."""
    archived = [start for start in starts if start.archived]
    if not archived:
        return None
    drift = drift_of(starts)
    facts = None
    if drift is not None:
        facts = ArchiveDriftFacts(request=drift.request, today=drift.today, p=drift.p)
    return ArchiveUseFacts(
        starts=len(archived),
        builds=independent_builds(archived),
        unknown_builds=sum(start.build is None for start in archived),
        drift=facts,
    )


def drift_findings(starts: Sequence[ArmStart], directory: str) -> Iterator[Finding]:
    """A warning if today's baseline answers otherwise than the archive in `directory`."""
    drift = drift_of(starts)
    if drift is None:
        return
    command = shlex.join(["ci-doctor", "correctness", "archive", "list", "--archive", directory])
    remedy = ShellCommand(f"# then revoke the wrong one: archive revoke COMMIT\n{command}")
    yield rules.ARCHIVE_DRIFT.finding(_explain(drift), remedy=remedy)


def _explain(drift: ArchiveDrift) -> str:
    archived = amount(drift.archived, "archived start")
    if drift.p is None:
        how = f"share no answer with {archived}"
    else:
        how = f"mix their answers otherwise than {archived} (exact test, p = {drift.p:.2g})"
    return f"{drift.request}: {drift.today} baseline starts of today {how}; the archive is off"
