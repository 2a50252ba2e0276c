"""Every rule over several files reports on its bad examples, and on no good one."""

import pytest

from ci_doctor.lint.consistency.all_rules import RULES
from ci_doctor.lint.consistency.check import check_consistency
from ci_doctor.lint.lint_rule import Example, LintRule

BAD = [pytest.param(rule, each, id=rule.id) for rule in RULES for each in rule.bad]
GOOD = [pytest.param(rule, each, id=rule.id) for rule in RULES for each in rule.good]


def reported(files: tuple[Example, ...]) -> set[str]:
    violations = check_consistency({each.file: each.text for each in files})
    return {each.rule.id for each in violations}


@pytest.mark.parametrize(("rule", "files"), BAD)
def test_a_rule_reports_on_its_bad_examples(rule: LintRule, files: tuple[Example, ...]) -> None:
    assert rule.id in reported(files)


@pytest.mark.parametrize(("rule", "files"), GOOD)
def test_a_rule_is_silent_on_its_good_examples(rule: LintRule, files: tuple[Example, ...]) -> None:
    assert rule.id not in reported(files)
