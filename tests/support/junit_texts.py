# SPDX-License-Identifier: Apache-2.0
"""Pure. JUnit files for tests, in the forms that tools write."""

from collections.abc import Mapping, Sequence

FAILURE = '<failure message="AssertionError: assert 3 == 4" type="AssertionError">text</failure>'


def junit(outcomes: Mapping[str, bool]) -> str:
    """A file as pytest writes it: from a test of `tests.test_a` to whether it passed."""
    return junit_of(list(outcomes.items()))


def junit_of(outcomes: Sequence[tuple[str, bool]], at: str = "2026-11-03T10:00:00+00:00") -> str:
    """The same for executions in their order, of which several may be of one test."""
    cases = []
    for name, passed in outcomes:
        child = "" if passed else FAILURE
        cases.append(
            f'<testcase classname="tests.test_a" name="{name}" time="0.5">{child}</testcase>'
        )
    suite = f'<testsuite name="pytest" timestamp="{at}" time="2.5">{"".join(cases)}</testsuite>'
    return f'<?xml version="1.0" encoding="utf-8"?><testsuites>{suite}</testsuites>'
