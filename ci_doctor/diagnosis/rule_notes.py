# SPDX-License-Identifier: Apache-2.0
"""Pure. What a rule may miss, though nothing in it is wrong."""

from collections.abc import Sequence

from ci_doctor.diagnosis.log_rule import LogRule
from ci_doctor.diagnosis.regex_tree import texts_without_literal
from ci_doctor.diagnosis.rule_checks import RuleProblem


def rule_notes(rules: Sequence[LogRule], file: str) -> list[RuleProblem]:
    """A note for each of the `rules` of the file `file` whose regex matches more than its literals.

    `rules` have no mistake (`check_rules`).
    """
    notes = []
    for rule in rules:
        lacking = texts_without_literal(rule.regex, rule.literals)
        if not lacking:
            continue
        text = (
            f"the regex also matches {lacking[0]!r}, which holds none of the literals: "
            "such a line is not reported, add a literal for it"
        )
        notes.append(RuleProblem(file=file, rule=rule.id, text=text, is_mistake=False))
    return notes
