# SPDX-License-Identifier: Apache-2.0
"""Pure. What comments of `directive` silence, and what is wrong with these comments themselves."""

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping

from msgspec import Struct

from ci_doctor.lint.directive import IgnoreDirective
from ci_doctor.lint.lint_rule import LintRule
from ci_doctor.lint.rules import IGNORE_WITHOUT_REASON, UNKNOWN_RULE, UNUSED_IGNORE
from ci_doctor.lint.violation import Place, Violation
from ci_doctor.model.suggestion import nearest

Directives = Mapping[str, tuple[IgnoreDirective, ...]]  # by file
_Index = dict[tuple[str, str], list[IgnoreDirective]]
_Use = tuple[str, int, str]  # a file, the line of a directive, and a rule that it has silenced


class Suppression(Struct, frozen=True, kw_only=True):
    """`kept` violations and the number of those that a comment silences."""

    kept: tuple[Violation, ...]
    silenced: int
    used: frozenset[_Use]


def suppress(violations: Collection[Violation], directives: Directives) -> Suppression:
    """Leave out what a directive silences at its place. One without a reason silences nothing."""
    index = _index(directives)
    kept = []
    used: set[_Use] = set()
    for violation in violations:
        uses = list(_silencing(violation, index))
        used.update(uses)
        if not uses:
            kept.append(violation)
    return Suppression(kept=tuple(kept), silenced=len(violations) - len(kept), used=frozenset(used))


def _index(directives: Directives) -> _Index:
    """The directives by file and rule. Their statements do not overlap, so one order is both's."""
    index: _Index = {}
    for file, several in directives.items():
        for directive in sorted(several, key=lambda each: each.first):
            if directive.reason:
                for rule in directive.rules:
                    index.setdefault((file, rule), []).append(directive)
    return index


def _silencing(violation: Violation, index: _Index) -> Iterator[_Use]:
    place = violation.place
    rule = violation.rule.id
    several = index.get((place.file, rule), [])
    begun = bisect_right(several, place.end_line, key=lambda each: each.first)
    for directive in reversed(several[:begun]):
        if directive.last < place.line:
            return
        yield (place.file, directive.line, rule)


def wrong_directives(
    directives: Directives,
    used: Collection[_Use],
    rule_ids: Callable[[], Collection[str]],
    judged: Mapping[str, Collection[str]],
) -> Iterator[Violation]:
    """What is wrong with the directives themselves.

    rule_ids: gives the ids of all rules; it is called if there is a directive. judged: for each file the families of rules (`shell`) that have
    looked at all of it; a directive for another one may be right.
    """
    rules = rule_ids() if any(directives.values()) else ()
    for file, several in directives.items():
        for directive in several:
            if not directive.reason:
                yield _about(file, directive, IGNORE_WITHOUT_REASON, "this comment gives no reason")
            for rule in directive.rules:
                yield from _wrong_rule(file, directive, rule, used, rules, judged)


def _wrong_rule(
    file: str,
    directive: IgnoreDirective,
    rule: str,
    used: Collection[_Use],
    rules: Collection[str],
    judged: Mapping[str, Collection[str]],
) -> Iterator[Violation]:
    if rule not in rules:
        near = nearest(rule, rules)
        remedy = f"did you mean `{near}`?" if near else None
        yield _about(file, directive, UNKNOWN_RULE, f"no rule is called `{rule}`", remedy)
        return
    is_judged = rule.partition("/")[0] in judged.get(file, ())
    # Without a reason it could silence nothing, and that is said already.
    if is_judged and directive.reason and (file, directive.line, rule) not in used:
        yield _about(file, directive, UNUSED_IGNORE, f"`{rule}` reports nothing here")


def _about(
    file: str,
    directive: IgnoreDirective,
    rule: LintRule,
    summary: str,
    remedy: str | None = None,
) -> Violation:
    return Violation(
        rule=rule,
        place=Place(file=file, line=directive.line, end_line=directive.line),
        summary=summary,
        excerpt=directive.excerpt,
        remedy=remedy or rule.rule.remedy,
    )
