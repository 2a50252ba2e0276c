# SPDX-License-Identifier: Apache-2.0
"""Every example of every rule, read as a repository of its own."""

import re
from collections.abc import Iterator

import pytest

from ci_doctor.lint.directive import directives
from ci_doctor.lint.examine import examine
from ci_doctor.lint.lint_rule import Example, LintRule
from ci_doctor.lint.readers import READERS
from ci_doctor.lint.rules import LINT_RULES, RULES
from ci_doctor.lint.selection import SelectionRequest, judged_families, select, violation_of
from ci_doctor.lint.settings import LintSettings
from ci_doctor.lint.source_kind import SourceKind, kind_by_first_line, kind_by_name
from ci_doctor.lint.violation import Violation

IDS = tuple(rule.id for rule in LINT_RULES)


def cases(kind: str) -> Iterator[object]:
    for rule in LINT_RULES:
        for number, files in enumerate(getattr(rule, kind)):
            yield pytest.param(rule, files, id=f"{rule.id}-{number}")


def kind_of(example: Example) -> SourceKind | None:
    first = example.text.partition("\n")[0]
    return kind_by_name(example.file) or kind_by_first_line(first)


def reported(files: tuple[Example, ...]) -> tuple[Violation, ...]:
    """What lint reports of a repository with these files alone."""
    texts = {each.file: each.text for each in files}
    violations: list[Violation] = list(READERS.consistency(texts, True))
    comments = {}
    families = {}
    for each in files:
        kind = kind_of(each)
        if kind is None:
            continue
        examined = examine(each.file, each.text, kind, READERS, texts.get)
        violations += examined.violations
        violations += [violation_of(one, "") for one in examined.unreadable]
        comments[each.file] = directives(each.text, kind)
        families[each.file] = judged_families(
            examined.role, is_readable=not examined.unreadable, is_whole=True
        )
    request = SelectionRequest(
        rules=IDS, settings=LintSettings(), paths=(".",), changes=None, baseline=None
    )
    return select(violations, comments, families, request).violations


@pytest.mark.parametrize(("rule", "files"), tuple(cases("bad")))
def test_a_bad_example_is_reported_at_a_line_of_its_own(
    rule: LintRule, files: tuple[Example, ...]
) -> None:
    lines = {each.file: each.text.count("\n") + 1 for each in files}

    own = [each for each in reported(files) if each.rule.id == rule.id]

    assert own
    for violation in own:
        assert 1 <= violation.place.line <= violation.place.end_line
        assert violation.place.line <= lines[violation.place.file]
        assert not violation.summary.endswith(".")


@pytest.mark.parametrize(("rule", "files"), tuple(cases("good")))
def test_a_good_example_is_not_reported(rule: LintRule, files: tuple[Example, ...]) -> None:
    assert [each for each in reported(files) if each.rule.id == rule.id] == []


@pytest.mark.parametrize("rule", LINT_RULES, ids=IDS)
def test_a_rule_has_examples_a_meaning_and_a_remedy(rule: LintRule) -> None:
    assert rule.bad
    assert rule.good
    assert rule.rule.meaning.endswith(".")
    assert rule.rule.remedy


def test_the_ids_are_unique_and_of_a_known_family() -> None:
    assert len({rule.id for rule in RULES}) == len(RULES)
    for rule in RULES:
        assert re.fullmatch(r"(shell|pipeline|gate|config|lint)/[a-z][a-z0-9-]+", rule.id)
