# SPDX-License-Identifier: Apache-2.0
"""Pure. Which rule an exception falls under that ends a traceback."""

import re
from typing import Final

from ci_doctor.diagnosis.exception_line import exception_name
from ci_doctor.diagnosis.log_rule import LogRule, Role
from ci_doctor.diagnosis.log_tracebacks import ExceptionLine
from ci_doctor.diagnosis.rule_set import RuleSet
from ci_doctor.model.cause import FailureClass

# For an exception whose line no rule matches: of a class with an unusual name, or without a message.
_ANY_EXCEPTION: Final = "python/exception"
_ASSERTION: Final = "python/assertion"
_TEST_ASSERTION: Final = "python/test-assertion"
_FAMILY: Final = "python/"
# What a rule says that knows no more than that a program or a test failed.
_ANY_CLASS: Final = frozenset({FailureClass.CODE_BUG, FailureClass.TEST_ASSERTION})
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
    if matching.role not in {Role.ERROR, Role.FAILURE} or matching.class_ not in _ANY_CLASS:
        return matching
    wanted = matching.id
    # A traceback shows that it is no error of another language that looks the same.
    if not matching.id.startswith(_FAMILY):
        wanted = _ANY_EXCEPTION
    # The same words are a failed test if a test says them, and a mistake in a program if not.
    if exception_name(exception.clean.message.lstrip(" |")) == "AssertionError":
        wanted = _ASSERTION
        if any(map(_TEST_FILE.search, exception.files)):
            wanted = _TEST_ASSERTION
    return _named(wanted, rules) or matching


def _named(identifier: str, rules: RuleSet) -> LogRule | None:
    for rule in rules.rules:
        if rule.id == identifier:
            return rule
    return None
