# SPDX-License-Identifier: Apache-2.0
"""Pure. From a run of lint to the verdict, the findings and the facts."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from ci_doctor.lint.lint_rule import STALE_BASELINE, Place, Violation, excerpt_of
from ci_doctor.lint.lint_run import (
    FAMILIES,
    LintBaselineFacts,
    LintFacts,
    LintFixFacts,
    LintRequest,
    LintRun,
    LintSinceFacts,
    UnreadableFact,
    rules_of,
)
from ci_doctor.lint.selection import BaselineEntry, LintBaseline, judged_families
from ci_doctor.lint.source_files import CiRole
from ci_doctor.model.outcome import (
    Case,
    CaseOutcome,
    Evidence,
    Finding,
    NextStep,
    Outcome,
    Severity,
    ShellCommand,
    Verdict,
)
from ci_doctor.render.formatting import amount

# A report of them has some megabytes, and nobody reads to its end.
MOST_FINDINGS: Final = 3000
# A word of a script in it may have a megabyte.
LONGEST_SUMMARY: Final = 500
_LONGEST_REMEDY: Final = 2000
_STALE_SHOWN: Final = 20


def severity_of(violation: Violation) -> Severity:
    """The severity that counts for `violation`."""
    return violation.severity or violation.rule.rule.severity


def count_of(violations: Iterable[Violation], severity: Severity) -> int:
    """How many of `violations` have this severity."""
    return sum(severity_of(violation) is severity for violation in violations)


def findings_of(violations: Sequence[Violation]) -> tuple[Finding, ...]:
    """A finding for each violation, in their order; above the limit the worst ones."""
    chosen = list(violations)
    if len(chosen) > MOST_FINDINGS:
        order = list(Severity)
        worst = sorted(chosen, key=lambda each: order.index(severity_of(each)))[:MOST_FINDINGS]
        # Back into the order of files and lines.
        kept = {id(violation) for violation in worst}
        chosen = [violation for violation in violations if id(violation) in kept]
    return tuple(map(_finding, chosen))


def stale_finding(file: str, stale: Sequence[BaselineEntry]) -> Finding:
    """What is reported of entries of the baseline `file` that match nothing."""
    shown = stale[:_STALE_SHOWN]
    evidence = [
        Evidence(file=each.file, excerpt=f"{each.rule}, {each.count} times") for each in shown
    ]
    return STALE_BASELINE.finding(
        f"{len(stale)} entries of {file} match nothing any more",
        evidence=tuple(evidence),
        remedy=ShellCommand(f"ci-doctor lint --write-baseline {file}"),
    )


def _finding(violation: Violation) -> Finding:
    related = [_evidence(place, None) for place in violation.related]
    return violation.rule.rule.finding(
        excerpt_of(violation.summary, LONGEST_SUMMARY),
        evidence=(_evidence(violation.place, violation.excerpt), *related),
        remedy=_remedy(violation.remedy),
        severity=violation.severity,
    )


def _remedy(text: str | None) -> NextStep | None:
    """A line of code is to be copied as it is; a sentence may be wrapped."""
    # Code that is cut would do something else. `explain` prints the rule's own remedy.
    if text is None or len(text) > _LONGEST_REMEDY:
        return None
    # Prose quotes its code in backticks, or ends with a full stop. `ruff check .` ends with one, too, but not with a word.
    is_prose = "`" in text or re.search(r"\w\.$", text) is not None
    return text if is_prose else ShellCommand(text)


def _evidence(place: Place, excerpt: str | None) -> Evidence:
    shown = None
    if excerpt is not None and excerpt.strip():
        shown = excerpt_of(excerpt)
    return Evidence(file=place.file, line=place.line, end_line=place.end_line, excerpt=shown)


# From a run of lint to the verdict, the findings and the facts.

_LOOKED_FOR: Final = (
    "*.sh, *.bash, programs with a shebang of a shell, *.yml, *.yaml, *.py, *.toml, Dockerfile"
)
_MOST_UNREADABLE: Final = 500


def outcome_of(ran: LintRun, request: LintRequest, fix: LintFixFacts | None = None) -> Outcome:
    """The outcome of `ran`, which answers `request`; `fix` is what was mended before it."""
    violations = ran.selection.violations
    findings = findings_of(violations)
    facts = _facts(ran, request, len(findings), fix)
    stale = ran.selection.stale
    if stale and request.baseline_file is not None:
        findings = (*findings, stale_finding(request.baseline_file, stale))
    return Outcome(
        verdict=_verdict(ran, facts),
        summary=_summary(ran, facts),
        findings=findings,
        facts=facts,
        cases=tuple(_cases(ran, violations)),
    )


def dry_run_outcome(ran: LintRun, request: LintRequest, fix: LintFixFacts) -> Outcome:
    """What `--fix --dry-run` would do. Nothing is judged."""
    reported = len(ran.selection.violations)
    facts = _facts(ran, request, reported, fix)
    return Outcome(verdict=None, summary=fix_summary(fix), facts=facts)


def baseline_outcome(baseline: LintBaseline, file: str) -> Outcome:
    """What `--write-baseline` has written. Nothing is judged."""
    count = sum(entry.count for entry in baseline.entries)
    files = len({entry.file for entry in baseline.entries})
    return Outcome(
        verdict=None,
        summary=f"{file}: {amount(count, 'violation')} in {amount(files, 'file')}; lint reports none of them "
        "from now on",
    )


def _verdict(ran: LintRun, facts: LintFacts) -> Verdict | None:
    if facts.errors:
        return Verdict.FAILED
    # Whether `[lint]` leaves out every file: as in a commit that changes only such files.
    if bool(ran.left_out) and not ran.files and not ran.unreadable:
        return None
    if _named_unread(ran) or (not _files_read(ran) and not _is_nothing_changed(ran)):
        return Verdict.VOID
    return Verdict.PASS


def _files_read(ran: LintRun) -> set[str]:
    """The files that rules have looked at, each at least in part."""
    return set(ran.files) - _reasons(ran).keys()


def _reasons(ran: LintRun) -> dict[str, str]:
    """Why no rule has looked at a file, by file."""
    unreadable = ran.unreadable
    return {each.file: each.reason for each in unreadable if not each.is_partial}


def _named_unread(ran: LintRun) -> list[str]:
    """The files that a person has named, and no rule has looked at."""
    return [file for file in _reasons(ran) if file in ran.scope.paths]


def _is_nothing_changed(ran: LintRun) -> bool:
    """Whether git says that no file which lint reads has changed: an answer, and no lack of one."""
    return ran.changes is not None and not ran.unreadable


def fix_summary(fix: LintFixFacts) -> str:
    """What was mended, or would be, without a full stop."""
    verb = "would mend" if fix.is_dry_run else "mended"
    count = sum(fix.files.values())
    parts = [f"{verb} {amount(count, 'violation')} in {amount(len(fix.files), 'file')}"]
    if fix.overlapping:
        parts.append(f"{fix.overlapping} more with the next --fix")
    for file, reason in fix.refused.items():
        parts.append(f"{file} stays as it is: {reason}")
    return "; ".join(parts)


def _summary(ran: LintRun, facts: LintFacts) -> str:
    if not facts.errors and not _files_read(ran):
        return _nothing(ran)
    counts = (
        (facts.errors, "error"),
        (facts.warnings, "warning"),
        (facts.notes, "note"),
    )
    named = ", ".join(amount(count, noun) for count, noun in counts if count) or "nothing to report"
    files = len({violation.place.file for violation in ran.selection.violations})
    where = f" in {amount(files, 'file')}" if files else ""
    parts = [f"{named}{where}; {_read(facts)}"]
    unreadable = len({each.file for each in ran.unreadable})
    if unreadable:
        parts.append(f"{amount(unreadable, 'file')} not wholly readable")
    if unread := _named_unread(ran):
        parts.append(f"{unread[0]} was named, and could not be read")
    if ran.selection.known:
        parts.append(f"{ran.selection.known} known to the baseline")
    if facts.fix is not None:
        parts.append(fix_summary(facts.fix))
    return "; ".join(parts)


def _read(facts: LintFacts) -> str:
    """`read 30 scripts, 9 pipelines with 120 scripts in them`."""
    parts = []
    for role, count in facts.lint_files.items():
        noun = role.removesuffix("s")
        text = amount(count, noun)
        if role == CiRole.PIPELINE and facts.embedded:
            text += f" with {amount(facts.embedded, 'script')} in them"
        if count:
            parts.append(text)
    return f"read {', '.join(parts)}"


def _nothing(ran: LintRun) -> str:
    if _is_nothing_changed(ran):
        return "no file that lint reads has changed"
    unreadable = ran.unreadable
    if unreadable:
        return f"nothing could be read: {unreadable[0].file}: {unreadable[0].reason}"
    if ran.left_out:
        return f"nothing was judged: [lint] leaves out {amount(ran.left_out, 'file')}, and there is no other"
    return f"nothing was read: no file here is one of {_LOOKED_FOR}"


def _facts(
    ran: LintRun, request: LintRequest, reported: int, fix: LintFixFacts | None
) -> LintFacts:
    violations = ran.selection.violations
    since = None
    if ran.changes is not None and request.since is not None:
        since = LintSinceFacts(
            reference=request.since,
            base=ran.changes.base,
        )
    known = None
    if request.baseline_file is not None:
        known = LintBaselineFacts(
            file=request.baseline_file,
            known=ran.selection.known,
            stale=len(ran.selection.stale),
        )
    roles = Counter(each.reading.role for each in ran.files.values())
    return LintFacts(
        lint_files={role.value: roles[role] for role in CiRole},
        embedded=sum(len(each.reading.scripts) for each in ran.files.values()),
        rules=_rules_run(ran),
        unreadable=tuple(
            UnreadableFact(file=each.file, line=each.line, reason=each.reason)
            for each in ran.unreadable[:_MOST_UNREADABLE]
        ),
        left_out={
            "deleted": ran.tree.missing,
            "links": ran.tree.links,
            "not regular": ran.tree.special,
            "vendored": ran.tree.vendored,
            "configured": ran.left_out,
        },
        latin1=sum(each.source.encoding != "utf-8" for each in ran.files.values()),
        silenced=ran.selection.silenced,
        errors=count_of(violations, Severity.ERROR),
        warnings=count_of(violations, Severity.WARNING),
        notes=count_of(violations, Severity.NOTE),
        unreported=len(violations) - reported,
        since=since,
        baseline=known,
        fix=fix,
        meanings={each.rule.id: each.rule.rule.meaning for each in violations},
    )


def _rules_run(ran: LintRun) -> dict[str, int]:
    """How many rules of each family had a file to look at."""
    present: set[str] = set()
    for file in ran.files.values():
        role = file.reading.role
        present.update(judged_families(role, is_readable=True, is_whole=ran.is_whole))
    return {family: len(rules_of(family)) for family in FAMILIES if family in present}


def _cases(ran: LintRun, violations: Sequence[Violation]) -> Iterator[Case]:
    """A case for each script, pipeline and gate, and for other files with an error.

    What no rule has looked at is skipped, and has not passed.
    """
    first: dict[str, Violation] = {}
    for violation in violations:
        if severity_of(violation) is Severity.ERROR:
            first.setdefault(violation.place.file, violation)
    files = ran.files
    judged = [file for file in files if files[file].reading.role is not CiRole.OTHER]
    reasons = _reasons(ran)
    for file in dict.fromkeys((*judged, *reasons, *first)):
        wrong = first.get(file)
        reason = reasons.get(file)
        message = None
        outcome = CaseOutcome.PASSED
        if wrong is not None:
            message = f"line {wrong.place.line}: {excerpt_of(wrong.summary, LONGEST_SUMMARY)}"
            outcome = CaseOutcome.FAILED
        elif reason is not None:
            message = f"no rule could read it: {reason}"
            outcome = CaseOutcome.SKIPPED
        yield Case(group="lint", name=file, outcome=outcome, message=message)
