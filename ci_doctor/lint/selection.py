# SPDX-License-Identifier: Apache-2.0
"""Pure. From all that the rules say to what is reported: comments, settings, paths, changes, baseline."""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

from msgspec import Struct

from ci_doctor.lint.baseline import BaselineEntry, LintBaseline, subtract
from ci_doctor.lint.changed_lines import ChangedLines
from ci_doctor.lint.configured import configured
from ci_doctor.lint.examine import CiRole
from ci_doctor.lint.rules import UNREADABLE
from ci_doctor.lint.settings import LintSettings
from ci_doctor.lint.suppression import Directives, suppress, wrong_directives
from ci_doctor.lint.unreadable import Unreadable
from ci_doctor.lint.violation import Place, Violation

# The families of rules that look at a file of each role, and the one that looks at all files.
_FAMILIES: Final = {
    CiRole.SCRIPT: ("shell",),
    CiRole.PIPELINE: ("pipeline", "shell"),
    CiRole.GATE: ("gate",),
    CiRole.OTHER: (),
}
_OF_EACH: Final = "lint"
_ACROSS: Final = "config"


class SelectionRequest(Struct, frozen=True, kw_only=True):
    """What decides. rule_ids: gives the ids of all rules; paths: the paths to report on; changes: None for all."""

    rule_ids: Callable[[], Collection[str]]
    settings: LintSettings
    paths: tuple[str, ...]
    changes: ChangedLines | None
    baseline: LintBaseline | None


class Selection(Struct, frozen=True, kw_only=True):
    """violations: to be reported, by file and line. The rest counts what is left out, and why."""

    violations: tuple[Violation, ...]
    silenced: int
    known: int
    stale: tuple[BaselineEntry, ...]


def select(
    violations: Iterable[Violation],
    directives: Directives,
    families: Mapping[str, Collection[str]],
    request: SelectionRequest,
) -> Selection:
    """What is left of `violations`, with what is wrong with `directives`.

    families: for each file that was read the families of rules that have judged all of it.
    """
    suppression = suppress(_without_doubles(violations), directives)
    wrong = wrong_directives(directives, suppression.used, request.rule_ids, families)
    present = configured((*suppression.kept, *wrong), request.settings)
    wanted = (violation for violation in present if _is_wanted(violation, request))
    kept = sorted(wanted, key=_order)
    if request.baseline is None:
        return Selection(violations=tuple(kept), silenced=suppression.silenced, known=0, stale=())

    def is_judged(entry: BaselineEntry) -> bool:
        if request.changes is not None or not is_below(entry.file, request.paths):
            return False
        # A file that is gone has no violation either.
        return entry.file not in families or _family(entry.rule) in families[entry.file]

    rest = subtract(kept, request.baseline, is_judged)
    return Selection(
        violations=rest.new, silenced=suppression.silenced, known=rest.known, stale=rest.stale
    )


def judged_families(role: CiRole, *, is_readable: bool, is_whole: bool) -> tuple[str, ...]:
    """The families of rules that have judged all of a file."""
    if not is_readable:
        return ()
    across = (_ACROSS,) if is_whole else ()
    return (*_FAMILIES[role], _OF_EACH, *across)


def is_below(file: str, paths: Iterable[str]) -> bool:
    """Whether `file` is one of `paths` (relative to the root, `.` for all) or lies below one."""
    return any(path in (".", file) or file.startswith(f"{path}/") for path in paths)


def violation_of(unreadable: Unreadable, line: str) -> Violation:
    """What lint itself reports of what it could not read; `line` is the text there."""
    return Violation(
        rule=UNREADABLE,
        place=Place(file=unreadable.file, line=unreadable.line, end_line=unreadable.line),
        summary=f"no rule could read this: {unreadable.reason}",
        excerpt=line,
    )


def _is_wanted(violation: Violation, request: SelectionRequest) -> bool:
    places = (violation.place, *violation.related)
    if not any(is_below(place.file, request.paths) for place in places):
        return False
    changes = request.changes
    return changes is None or any(changes.touches(place) for place in places)


def _without_doubles(violations: Iterable[Violation]) -> list[Violation]:
    """Each once: a function that two scripts source is read with both of them."""
    first: dict[tuple[str, Place, str], Violation] = {}
    for violation in violations:
        first.setdefault((violation.rule.id, violation.place, violation.summary), violation)
    return list(first.values())


def _family(rule: str) -> str:
    return rule.partition("/")[0]


def _order(violation: Violation) -> tuple[str, int, str]:
    return (violation.place.file, violation.place.line, violation.rule.id)
