# SPDX-License-Identifier: Apache-2.0
"""Reads rules files: what `diagnose rules` prints of them."""

from collections.abc import Sequence
from pathlib import Path

from ci_doctor.diagnosis.diagnosis import load_rules
from ci_doctor.diagnosis.log_rule import LogRule
from ci_doctor.model.facts.diagnose import LogRuleFacts, LogRulesFacts
from ci_doctor.model.outcome import Outcome
from ci_doctor.model.table import Table, row


def rules_outcome(own: tuple[Path, ...]) -> Outcome:
    """All rules in a table, those of a repository's files `own` last. Raises ConfigError."""
    rules = load_rules(own).rules
    return Outcome(
        verdict=None,
        summary=f"{len(rules)} rules; `ci-doctor explain ID` explains one",
        tables=(_table(rules),),
        facts=LogRulesFacts(rules=tuple(_facts(rule) for rule in rules)),
    )


def _table(rules: Sequence[LogRule]) -> Table:
    rows = []
    for rule in rules:
        class_ = "" if rule.class_ is None else rule.class_.value
        rows.append(row(rule.id, rule.role.value, class_, rule.explanation))
    return Table(title="Rules", columns=("role", "class", "explanation"), rows=tuple(rows))


def _facts(rule: LogRule) -> LogRuleFacts:
    return LogRuleFacts(
        id=rule.id,
        role=rule.role.value,
        class_=None if rule.class_ is None else rule.class_.value,
        explanation=rule.explanation,
        remedy=rule.remedy,
    )
