# SPDX-License-Identifier: Apache-2.0
"""What `explain` answers to each kind of word."""

import pytest

from ci_doctor.catalogue import all_rules
from ci_doctor.errors import UsageError
from ci_doctor.explanation import explain

ERROR = "ImportError: cannot import name 'GenerationConfig' from 'transformers' (/x/__init__.py)"


def remedy(word: str) -> str:
    facts = explain(word).facts
    assert facts is not None
    return str(getattr(facts, "remedy", ""))


@pytest.mark.parametrize(
    "word", ["import-race", "cannot import name", "partially initialized module", ERROR]
)
def test_the_error_of_an_import_leads_to_probe_trigger_and_rule(word: str) -> None:
    told = remedy(word)

    steps = [told.index(step) for step in ("probe", "--confirm", "preload install")]
    assert steps == sorted(steps)
    assert "cannot import name 'X' from partially initialized module 'Y'" in explain(word).summary


def test_the_names_of_an_error_stand_in_the_command() -> None:
    assert "`ci-doctor import-race probe transformers:GenerationConfig`" in remedy(ERROR)


def test_the_group_of_a_rule_lists_its_rules() -> None:
    for rule in all_rules():
        group = rule.partition("/")[0]
        if group != "import-race":
            assert f"`{rule}`" in explain(group).summary


def test_an_unknown_word_is_a_usage_error() -> None:
    with pytest.raises(UsageError):
        explain("circumstance")
