# SPDX-License-Identifier: Apache-2.0
"""Pure. Of all rules that match one line, the one that says most about it."""

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet

from msgspec import Struct

from ci_doctor.diagnosis.log_rule import LogRule, Role
from ci_doctor.diagnosis.rule_set import RuleSet


class RuleMatch(Struct, frozen=True, kw_only=True):
    """A rule that matches a line, and what its named groups capture there."""

    rule: LogRule
    fields: dict[str, str]


def strongest_match(
    rules: RuleSet, indices: Iterable[int], texts: Sequence[str], roles: AbstractSet[Role]
) -> RuleMatch | None:
    """The match of the rule with the most points, the first among equals; None without one.

    indices: the rules to try. texts: the forms of one line. roles: those that count. A line that is
    noise has no match, and neither has the header of a list: it names the line below it.
    """
    best: RuleMatch | None = None
    for index, fields in rules.matching(indices, texts):
        rule = rules.rules[index]
        if rule.role is Role.NOISE:
            return None
        if rule.next_line is not None or rule.role not in roles:
            continue
        if best is None or rule.points > best.rule.points:
            best = RuleMatch(rule=rule, fields=fields)
    return best
