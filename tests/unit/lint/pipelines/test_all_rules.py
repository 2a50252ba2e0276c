# SPDX-License-Identifier: Apache-2.0
"""Each rule about pipelines, on its own examples."""

import subprocess
import sys

import pytest

from ci_doctor.lint.lint_rule import Example
from ci_doctor.lint.pipelines.all_rules import RULES
from ci_doctor.lint.pipelines.check import PipelineContext, check_pipeline, is_pipeline

BAD = [(rule.id, files) for rule in RULES for files in rule.bad]
GOOD = [(rule.id, files) for rule in RULES for files in rule.good]


def reported(files: tuple[Example, ...]) -> set[str]:
    found = set()
    for example in files:
        reading = check_pipeline(example.file, example.text, PipelineContext())
        found |= {violation.rule.id for violation in reading.violations}
    return found


@pytest.mark.parametrize(("rule", "files"), BAD)
def test_a_rule_reports_on_its_bad_examples(rule: str, files: tuple[Example, ...]) -> None:
    assert rule in reported(files)


@pytest.mark.parametrize(("rule", "files"), GOOD)
def test_a_rule_is_silent_on_its_good_examples(rule: str, files: tuple[Example, ...]) -> None:
    assert rule not in reported(files)


def test_every_rule_has_five_bad_spellings_and_a_good_one() -> None:
    assert [rule.id for rule in RULES if len(rule.bad) < 5 or not rule.good] == []


def test_every_example_is_a_file_that_the_command_would_check() -> None:
    examples = [each for _, files in BAD + GOOD for each in files]

    assert [each for each in examples if not is_pipeline(each.file, each.text)] == []


def test_every_rule_has_an_id_of_its_own() -> None:
    ids = [rule.id for rule in RULES]

    assert len(set(ids)) == len(ids)
    assert all(each.startswith("pipeline/") for each in ids)


def test_the_rules_load_without_a_yaml_parser() -> None:
    program = (
        "import sys, ci_doctor.lint.pipelines.all_rules as rules;"
        "print(len(rules.RULES), 'yaml' in sys.modules, 'tree_sitter' in sys.modules)"
    )

    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert ran.stdout.split() == [str(len(RULES)), "False", "False"]
