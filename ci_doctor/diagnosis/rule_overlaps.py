# SPDX-License-Identifier: Apache-2.0
"""Pure. Which other rules match the examples of a rule, and which of them count in its place."""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from ci_doctor.diagnosis.lines.clean_line import clean_line
from ci_doctor.diagnosis.log_rule import NAMEABLE, LogRule, Role
from ci_doctor.diagnosis.rule_set import RuleSet
from ci_doctor.diagnosis.strongest_match import strongest


class Overlap(Struct, frozen=True, kw_only=True):
    """The rule `other` matches the `example` of `rule`; counts: a log's line is named by `other`."""

    rule: LogRule
    example: str
    other: LogRule
    counts: bool

    @property
    def takes(self) -> bool:
        """Whether such a line gets another class than that of `rule`, and nobody has allowed it."""
        if not self.counts or self.other.id in self.rule.yields_to:
            return False
        classes = {self.rule.class_, self.other.class_}
        return self.other.role is Role.NOISE or (len(classes) > 1 and None not in classes)


def overlaps(rules: RuleSet, rule: LogRule) -> Iterator[Overlap]:
    """Every overlap of `rule`, which is one of `rules`; none if it names no line or another one."""
    if rule.role not in NAMEABLE or rule.next_line is not None:
        return
    for example in rule.match:
        matching = _matching(rules, example)
        for other in matching:
            if other.id == rule.id:
                continue
            # Of equal ones the order of files would decide: that is no decision.
            named = strongest([other, rule])
            yield Overlap(rule=rule, example=example, other=other, counts=named != 1)


def _matching(rules: RuleSet, example: str) -> Sequence[LogRule]:
    line = f"{example}\n"
    indices = []
    for index, rule in enumerate(rules.rules):
        is_named = rule.role in {*NAMEABLE, Role.NOISE} and rule.next_line is None
        if is_named and any(literal in line for literal in rule.literals):
            indices.append(index)
    texts = clean_line(example.encode()).texts
    return [rules.rules[index] for index, _ in rules.matching(indices, texts)]
