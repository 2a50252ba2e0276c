# SPDX-License-Identifier: Apache-2.0
"""Pure. Of all hits of a log, the one for each line that can be named as a cause."""

from collections.abc import Iterable

from ci_doctor.diagnosis.log_rule import NAMEABLE, Role
from ci_doctor.diagnosis.rule_set import RuleSet
from ci_doctor.diagnosis.scanning.scan import Hit


def strongest_hits(hits: Iterable[Hit], rules: RuleSet) -> dict[int, Hit]:
    """From the offset of each line to its hit whose rule has the most points.

    A line that is noise has none. A line that is a known symptom is no error in general.
    """
    listed = list(hits)
    noise = offsets_of(listed, rules, Role.NOISE)
    symptoms = offsets_of(listed, rules, Role.SYMPTOM)
    by_line: dict[int, Hit] = {}
    for hit in listed:
        rule = rules.rules[hit.rule]
        offset = hit.line.offset
        if rule.role not in NAMEABLE or offset in noise:
            continue
        if rule.role is Role.ERROR and offset in symptoms:
            continue
        other = by_line.get(offset)
        if other is None or rule.points > rules.rules[other.rule].points:
            by_line[offset] = hit
    return by_line


def offsets_of(hits: Iterable[Hit], rules: RuleSet, *roles: Role) -> set[int]:
    """The offsets of the lines with a hit of one of `roles`."""
    return {hit.line.offset for hit in hits if rules.rules[hit.rule].role in roles}
