# SPDX-License-Identifier: Apache-2.0
"""Pure. All rules of lint by their families, each family loaded when it is asked for."""

from ci_doctor.lint.lint_rule import OWN_RULES, STALE_BASELINE, LintRule
from ci_doctor.model.finding import Rule

FAMILIES = ("shell", "pipeline", "gate", "config", "lint")


def rules_of(family: str) -> tuple[LintRule, ...]:
    """The rules of one of FAMILIES. To load all of them takes as long as to lint a file."""
    match family:
        case "shell":
            from ci_doctor.lint.shell import rules as shell

            return shell.RULES
        case "pipeline":
            from ci_doctor.lint.pipelines import check as pipelines

            return pipelines.RULES
        case "gate":
            from ci_doctor.lint import gates

            return gates.RULES
        case "config":
            from ci_doctor.lint import variable_rules

            return variable_rules.RULES
        case _:
            return OWN_RULES


def lint_rules() -> tuple[LintRule, ...]:
    """Every rule that has examples."""
    rules: list[LintRule] = []
    for family in FAMILIES:
        rules += rules_of(family)
    return tuple(rules)


def rule_ids() -> tuple[str, ...]:
    """The ids of the rules that a comment or a setting may name."""
    return tuple(rule.id for rule in lint_rules())


def rules_for_catalogue() -> tuple[Rule, ...]:
    """Every rule that a finding of lint may name."""
    return (*(each.rule for each in lint_rules()), STALE_BASELINE)
