# SPDX-License-Identifier: Apache-2.0
"""Pure. What an audit found, as findings: races, and code that was not audited."""

import shlex
from collections.abc import Iterator
from typing import Final

from ci_doctor.model.finding import Evidence, Finding, Severity
from ci_doctor.preload import rules
from ci_doctor.preload.audit.events import SourceSite
from ci_doctor.preload.audit.merged import AuditedRace, MergedStart, rule_text
from ci_doctor.preload.audit.package_audit import PackageAudit
from ci_doctor.preload.audit.races import RaceHazard

_WHY: Final = {
    RaceHazard.REPLACES_ITSELF: "replaces itself in sys.modules",
    RaceHazard.CIRCLE: "lies in a circle of imports that they enter at different modules",
    RaceHazard.SUBMODULE: "imports a submodule that one of them names directly",
    RaceHazard.NOT_INSTALLED: "is not installed here, so that nothing is known of it",
}


def findings_of(audit: PackageAudit) -> Iterator[Finding]:
    """One for each thread start with an import that may race, then what was not audited."""
    for start in audit.starts:
        if start.harmful():
            yield _race(start)
    if audit.missing:
        names = ", ".join(entry.module for entry in audit.missing)
        yield rules.AUDIT_INCOMPLETE.finding(
            f"no source to audit for {names}", remedy="install the package with its source"
        )
    if audit.limits.is_cut:
        yield rules.AUDIT_INCOMPLETE.finding(
            f"the audit was cut off after {audit.seconds:.0f} s",
            remedy="allow more time with --timeout, or name entry points with --entry",
        )


def is_incomplete(audit: PackageAudit) -> bool:
    """Whether the audit proves nothing about some entry point."""
    return bool(audit.missing) or audit.limits.is_cut or not audit.entries


def _race(start: MergedStart) -> Finding:
    worst = start.worst
    harmful = [race for race in start.harmful() if race.raced.hazard is worst]
    first = harmful[0]
    others = f" and {len(harmful) - 1} more" if len(harmful) > 1 else ""
    rule = rules.THREAD_MAY_RACE
    severity = Severity.WARNING
    if worst is RaceHazard.REPLACES_ITSELF:
        rule = rules.THREAD_RACES
        is_certain = not start.start.is_possible and not first.raced.is_possible
        severity = Severity.ERROR if is_certain else Severity.WARNING
    summary = (
        f"the thread started at {start.place} ({start.targets[0]}, {start.when}, by "
        f"{start.entries[0]}) and {first.rival} both import {first.raced.module}{others}, "
        f"which {_WHY[worst]}"
    )
    return rule.finding(
        summary, severity=severity, evidence=tuple(_evidence(start, first)), remedy=_remedy(start)
    )


def _evidence(start: MergedStart, race: AuditedRace) -> Iterator[Evidence]:
    for site, text in (
        (start.start.site, "the thread starts"),
        (race.raced.there, f"the thread imports {race.raced.module}"),
        (race.raced.here, f"{race.rival} imports {race.raced.module}"),
    ):
        yield _at(site, text)


def _at(site: SourceSite, text: str) -> Evidence:
    line = site.line or None
    return Evidence(file=site.file or site.module, line=line, excerpt=text)


def _remedy(start: MergedStart) -> str:
    text = rule_text(start)
    if text is None:
        return (
            "import the module before the thread starts, or start the thread later: "
            "no preload rule comes before this start"
        )
    return (
        f"ci-doctor preload install --rule {shlex.quote(text)}"
        "  # this rule was NOT seen to win: an audit runs nothing. "
        "`ci-doctor import-race --confirm -- CMD` tries it"
    )
