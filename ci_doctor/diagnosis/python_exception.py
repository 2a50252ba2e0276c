# SPDX-License-Identifier: Apache-2.0
"""Pure. Which rule an exception falls under that ends a traceback."""

import re
from typing import Final

from ci_doctor.diagnosis.exception_line import exception_name
from ci_doctor.diagnosis.log_rule import LogRule, Role
from ci_doctor.diagnosis.log_tracebacks import ExceptionLine
from ci_doctor.diagnosis.rule_set import RuleSet

# For an exception whose line no rule matches: of a class with an unusual name, or without a message.
_ANY_EXCEPTION: Final = "python/exception"
_ASSERTION: Final = "python/assertion"
_TEST_ASSERTION: Final = "python/test-assertion"
_TEST_FILE: Final = re.compile(
    r"(?:^|[/\\])(?:test_[^/\\]*|[^/\\]*_test|tests?|conftest)\.py$|/unittest/"
)


def rule_of_exception(
    exception: ExceptionLine, matching: LogRule | None, rules: RuleSet
) -> LogRule | None:
    """The rule of `exception`: `matching`, which matches its line, or a more fitting one.

    None if the rules have none for exceptions.
    """
    if matching is None:
        return _named(_ANY_EXCEPTION, rules)
    name = exception_name(exception.clean.message.lstrip(" |"))
    if name != "AssertionError" or matching.role is Role.CAUSE:
        return matching
    # The same words are a failed test if a test says them, and a mistake in a program if not.
    wanted = _ASSERTION
    if any(map(_TEST_FILE.search, exception.files)):
        wanted = _TEST_ASSERTION
    return _named(wanted, rules) or matching


def _named(identifier: str, rules: RuleSet) -> LogRule | None:
    for rule in rules.rules:
        if rule.id == identifier:
            return rule
    return None
