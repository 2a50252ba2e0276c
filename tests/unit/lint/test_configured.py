# SPDX-License-Identifier: Apache-2.0
"""A name in `[lint]` that fits no rule would silence nothing, and is an error."""

import pytest

from ci_doctor.errors import ConfigError
from ci_doctor.lint.configured import check_rule_names
from ci_doctor.lint.settings import LintSettings, PathSettings
from ci_doctor.model.finding import Severity

RULES = ("shell/bad-word", "gate/slow-gate")


@pytest.mark.parametrize(
    "settings",
    [
        LintSettings(ignore=("shell/bad-wort",)),
        LintSettings(severity={"shell/bad-wort": Severity.NOTE}),
        LintSettings(paths=(PathSettings(match=("*",), ignore=("shell/bad-wort",)),)),
    ],
)
def test_a_mistyped_rule_is_an_error_with_the_near_name(settings: LintSettings) -> None:
    with pytest.raises(ConfigError) as raised:
        check_rule_names(settings, lambda: RULES, "ci-doctor.toml:3")

    assert raised.value.message == "ci-doctor.toml:3: [lint]: no rule is called `shell/bad-wort`"
    assert raised.value.hint == "did you mean `shell/bad-word`?"


def test_names_and_patterns_of_rules_are_fine() -> None:
    settings = LintSettings(
        ignore=("shell/*",), paths=(PathSettings(match=("x/**",), ignore=("*", "gate/slow-gate")),)
    )

    check_rule_names(settings, lambda: RULES, "ci-doctor.toml")
