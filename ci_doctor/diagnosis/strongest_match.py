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
    matches = []
    for index, fields in rules.matching(indices, texts):
        rule = rules.rules[index]
        if rule.next_line is None and rule.role in {*roles, Role.NOISE}:
            matches.append(RuleMatch(rule=rule, fields=fields))
    best = strongest([match.rule for match in matches])
    return None if best is None else matches[best]


def strongest(matching: Sequence[LogRule]) -> int | None:
    """The index of that of the rules `matching` one line which says most about it.

    None for a line that is noise. A rule that another one stands instead of does not count, and a
    line that is a known symptom is no error in general. Among equals the first counts.
    """
    replaced = {each for rule in matching for each in rule.instead_of}
    counting = [rule for rule in matching if rule.id not in replaced]
    roles = {rule.role for rule in counting}
    if Role.NOISE in roles:
        return None
    if Role.SYMPTOM in roles:
        counting = [rule for rule in counting if rule.role is not Role.ERROR]
    if not counting:
        return None
    return matching.index(max(counting, key=lambda rule: rule.points))
