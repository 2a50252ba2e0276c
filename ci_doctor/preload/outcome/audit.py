# SPDX-License-Identifier: Apache-2.0
"""Acts on processes, reads source files: `preload audit`, from a request to an outcome."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from ci_doctor.errors import CiDoctorError
from ci_doctor.model.facts.preload import (
    AuditedPackageFact,
    AuditFacts,
    AuditLimitsFact,
    RaceFact,
    ThreadStartFact,
)
from ci_doctor.model.finding import Finding, Severity
from ci_doctor.model.outcome import Failure, Outcome
from ci_doctor.model.table import Row, Table, row, seconds
from ci_doctor.model.verdict import Verdict
from ci_doctor.preload.audit.audited import audit_package
from ci_doctor.preload.audit.events import SourceSite
from ci_doctor.preload.audit.findings import findings_of, is_incomplete
from ci_doctor.preload.audit.merged import AuditedRace, MergedStart, rule_text
from ci_doctor.preload.audit.package_audit import AuditRequest, PackageAudit
from ci_doctor.preload.interpreters import Interpreters, find_interpreters
from ci_doctor.preload.outcome.refused import refusal_table, refused_fact, worst
from ci_doctor.preload.result import Refused
from ci_doctor.render.formatting import amount

_MOST_ROWS = 40
_MOST_NAMED = 12


def audit(
    interpreters: Interpreters,
    request: AuditRequest,
    *,
    tell: Callable[[str], None] = lambda _: None,
    environ: Mapping[str, str] = os.environ,
) -> Outcome:
    """The thread starts that a package's entry points reach, and the imports that they race.

    `failed` if a thread surely races a module that replaces itself; `void` if code could not be
    read or the time was up. Raises UsageError if there is no interpreter.
    """
    audits: list[PackageAudit] = []
    refused: list[Refused] = []
    for python in find_interpreters(interpreters, environ):
        if isinstance(python, Refused):
            refused.append(python)
            continue
        try:
            audits.append(audit_package(python, request, tell=tell))
        except CiDoctorError as error:
            refused.append(Refused(python=python, error=error))
    return _outcome(request.package, audits, refused)


def _outcome(package: str, audits: Sequence[PackageAudit], refused: Sequence[Refused]) -> Outcome:
    findings: list[Finding] = []
    tables: list[Table] = []
    for each in audits:
        findings += findings_of(each)
        tables += _tables(each)
    tables += [refusal_table(each) for each in refused]
    verdict, error = _verdict(audits, findings, refused)
    return Outcome(
        verdict=verdict,
        error=error,
        summary=_summary(package, audits),
        findings=tuple(findings),
        tables=tuple(tables),
        facts=AuditFacts(
            package=package,
            audits=tuple(map(_fact, audits)),
            refused=tuple(map(refused_fact, refused)),
        ),
    )


def _verdict(
    audits: Sequence[PackageAudit], findings: Iterable[Finding], refused: Sequence[Refused]
) -> tuple[Verdict | None, Failure | None]:
    failed = any(finding.severity is Severity.ERROR for finding in findings)
    if refused:
        verdict, error = worst(refused)
        return Verdict.FAILED if failed else verdict, error
    if failed:
        return Verdict.FAILED, None
    if any(is_incomplete(each) for each in audits):
        return Verdict.VOID, None
    return Verdict.PASS, None


def _summary(package: str, audits: Sequence[PackageAudit]) -> str:
    if not audits:
        return f"{package} was not audited"
    starts = {start.place: start for each in audits for start in each.starts}
    racing = sum(bool(start.harmful()) for start in starts.values())
    possible = sum(start.start.is_possible for start in starts.values())
    text = f"{package}: {amount(len(starts), 'thread start')} reached"
    if possible:
        text = f"{text}, {possible} of them only if a registered function is called"
    if racing:
        return f"{text}; {racing} with an import that may race"
    return f"{text}; no import that may race was seen"


def _tables(audit: PackageAudit) -> Iterator[Table]:
    package = audit.package
    name = package.distribution or ", ".join(package.tops)
    rows = [
        row("package", f"{name} {package.version or '(no metadata)'}"),
        row("interpreter", str(audit.python)),
        row("entry points", ", ".join(entry.label for entry in audit.entries)),
        row("modules read", audit.modules),
        row("time", seconds(audit.seconds)),
    ]
    yield Table(title="Audit", rows=tuple(rows))
    yield _starts_table(audit.starts)
    yield _limits_table(audit)


def _starts_table(starts: Sequence[MergedStart]) -> Table:
    if not starts:
        return Table(title="Thread starts", rows=(row("none was reached"),))
    rows = [_start_row(start) for start in starts[:_MOST_ROWS]]
    left = len(starts) - len(rows)
    if left:
        rows.append(row(f"{left} more, without races seen, in the report's facts"))
    columns = ("when", "entry point", "runs", "raced")
    return Table(title="Thread starts", columns=columns, rows=tuple(rows))


def _start_row(start: MergedStart) -> Row:
    harmful = start.harmful()
    raced = ", ".join(race.raced.module for race in harmful[:3])
    if len(harmful) > 3:
        raced = f"{raced}, {len(harmful) - 3} more"
    label = f"{start.start.site.module}:{start.start.site.line}"
    entries = _first(start.entries)
    return row(label, start.when, entries, _first(start.targets), raced or "none seen")


def _first(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]}, {len(names) - 1} more"


def _limits_table(audit: PackageAudit) -> Table:
    limits = audit.limits
    rows = [
        row("threads whose function is not known", *_some(limits.unknown_targets)),
        row("calls of .start() on unknown objects", *_some(limits.unknown_starts)),
        row("imports of computed names", *_some(limits.dynamic_imports)),
        row("functions that somebody else calls, taken as called", limits.callbacks),
    ]
    if audit.unread:
        named = ", ".join(list(audit.unread)[:_MOST_NAMED])
        rows.append(row("modules without readable source", len(audit.unread), named))
    if limits.unfollowed:
        named = ", ".join(list(limits.unfollowed)[:_MOST_NAMED])
        rows.append(row("packages not followed (--follow)", len(limits.unfollowed), named))
    rows.append(
        row(
            "also not seen: getattr by computed name, exec, properties, C code, metaclasses, "
            "monkey-patches"
        )
    )
    return Table(title="What was not followed", rows=tuple(rows))


def _some(sites: Iterable[SourceSite]) -> tuple[int, str]:
    places = [f"{site.module}:{site.line}" for site in sites]
    more = ", …" if len(places) > 3 else ""
    return len(places), ", ".join(places[:3]) + more


def _fact(audit: PackageAudit) -> AuditedPackageFact:
    limits = audit.limits
    return AuditedPackageFact(
        python=str(audit.python),
        distribution=audit.package.distribution,
        version=audit.package.version,
        entry_points=tuple(entry.label for entry in audit.entries),
        modules=audit.modules,
        seconds=round(audit.seconds, 3),
        starts=tuple(map(_start_fact, audit.starts)),
        limits=AuditLimitsFact(
            unknown_starts=_places(limits.unknown_starts),
            unknown_targets=_places(limits.unknown_targets),
            dynamic_imports=_places(limits.dynamic_imports),
            unread=audit.unread,
            unfollowed=tuple(limits.unfollowed),
            callbacks=limits.callbacks,
            is_cut=limits.is_cut,
        ),
    )


def _start_fact(start: MergedStart) -> ThreadStartFact:
    site = start.start.site
    text = rule_text(start)
    return ThreadStartFact(
        file=site.file,
        line=site.line,
        module=site.module,
        kind=start.start.kind,
        target=", ".join(start.targets),
        when=start.when,
        entry_points=start.entries,
        imports=start.imports,
        races=tuple(map(_race_fact, start.races)),
        preload_rule=text,
        # An audit runs nothing.
        rule_standing=None if text is None else "not tried",
    )


def _race_fact(race: AuditedRace) -> RaceFact:
    raced = race.raced
    return RaceFact(
        module=raced.module,
        hazard=str(raced.hazard),
        rival=race.rival,
        thread=_place(raced.there),
        other=_place(raced.here),
    )


def _places(sites: Iterable[SourceSite]) -> tuple[str, ...]:
    return tuple(map(_place, sites))


def _place(site: SourceSite) -> str:
    return f"{site.file or site.module}:{site.line}"
