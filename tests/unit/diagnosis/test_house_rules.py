# SPDX-License-Identifier: Apache-2.0
"""Every rule that ships with ci-doctor: its examples, its fields, and what a hostile line costs."""

import time
from pathlib import Path

import pytest

from ci_doctor.diagnosis import rule_files
from ci_doctor.diagnosis.bounded_regex import BoundedRegex
from ci_doctor.diagnosis.lines.clean_line import LONGEST_TEXT
from ci_doctor.diagnosis.log_rule import LogRule
from ci_doctor.diagnosis.rule_checks import check_rules
from ci_doctor.diagnosis.rule_overlaps import overlaps
from ci_doctor.diagnosis.rule_set import RuleSet

RULES = rule_files.house_rules()
FILES = sorted((Path(rule_files.__file__).parent / "rules").glob("*.toml"))
# CPU time for one line, by the issue; a slow machine has as long as any other.
MOST_S = 0.05


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_file_of_house_rules_has_no_mistake(file: Path) -> None:
    rules = rule_files.parse_rules(file.read_text("utf-8"), file.name)
    problems = check_rules(rules, file.name, is_house=True)

    assert [str(problem) for problem in problems] == []


def test_every_house_rule_has_an_id_of_its_own() -> None:
    ids = [rule.id for rule in RULES]

    assert sorted(ids) == sorted(set(ids))


def hostile_lines(rule: LogRule) -> list[str]:
    """Lines on which a regex that backtracks takes long: repeats, alone and after an example."""
    lines = []
    starts = {"", rule.match[0], rule.match[0][: len(rule.match[0]) // 2]}
    for start in sorted(starts):
        for repeated in ("a", " ", ":", "/", "0", "a ", "a:", "a/", "a.", "1.1:", "[a] ", "(a) "):
            text = start + repeated * LONGEST_TEXT
            # The longest for each of the two engines.
            lines += [text[:400], text[:LONGEST_TEXT]]
    return lines


def slowest_s(regex: BoundedRegex, lines: list[str]) -> float:
    slowest = 0.0
    for line in lines:
        started = time.thread_time()
        regex.search(line)
        slowest = max(slowest, time.thread_time() - started)
    return slowest


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_no_line_takes_a_house_rule_long(rule: LogRule) -> None:
    regex = BoundedRegex(rule.regex, is_foreign=False)
    regex.search("")
    regex.search(" " * LONGEST_TEXT)
    lines = hostile_lines(rule)

    # Another process may have had the processor's caches: the better of two counts.
    assert slowest_s(regex, lines) < MOST_S or slowest_s(regex, lines) < MOST_S


def test_no_heavier_rule_of_another_class_takes_an_example() -> None:
    rules = RuleSet(RULES)
    taken = [each for rule in RULES for each in overlaps(rules, rule) if each.takes]

    assert [(each.rule.id, each.other.id, each.example) for each in taken] == []


def test_rules_that_stand_aside_exist_and_say_why() -> None:
    ids = {rule.id for rule in RULES}

    for rule in RULES:
        assert {*rule.instead_of, *rule.yields_to} <= ids - {rule.id}, rule.id
        assert all(len(reason.split()) > 3 for reason in rule.yields_to.values()), rule.id
