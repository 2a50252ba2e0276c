# SPDX-License-Identifier: Apache-2.0
"""All rooms' rules in one table, for `explain` and the docs alone. Pure."""

from ci_doctor.imports import rules as imports
from ci_doctor.model.finding import Severity
from ci_doctor.model.rule import Rule
from ci_doctor.model.rules import RULES as NOT_YET_MOVED


def all_rules() -> dict[str, Rule]:
    """Every rule that a finding may name, by id, in the order of the rooms."""
    rules: dict[str, Rule] = {}
    for room in _rooms():
        for rule in room:
            rules[rule.id] = rule
    return rules


def _rooms() -> tuple[tuple[Rule, ...], ...]:
    """The rules of each room. A new room adds its line here."""
    old = [
        Rule(id=name, severity=Severity.ERROR, meaning=text.meaning, remedy=text.remedy)
        for name, text in NOT_YET_MOVED.items()
    ]
    return (tuple(old), imports.RULES)
