# SPDX-License-Identifier: Apache-2.0
"""Every example of every rule, read as a repository of its own."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from ci_doctor.lint.lint_rule import Example, LintRule, Violation
from ci_doctor.lint.lint_run import FAMILIES, Readers, lint_rules, rules_for_catalogue
from ci_doctor.lint.run import examine, readers_of
from ci_doctor.lint.selection import (
    LintSettings,
    SelectionRequest,
    directives,
    judged_families,
    select,
    violation_of,
)
from ci_doctor.lint.source_files import (
    LintTree,
    RepositoryTexts,
    SourceKind,
    kind_by_first_line,
    kind_by_name,
)

LINT_RULES = lint_rules()
IDS = tuple(rule.id for rule in LINT_RULES)


def cases(kind: str) -> Iterator[object]:
    for rule in LINT_RULES:
        for number, files in enumerate(getattr(rule, kind)):
            yield pytest.param(rule, files, id=f"{rule.id}-{number}")


def kind_of(example: Example) -> SourceKind | None:
    first = example.text.partition("\n")[0]
    return kind_by_name(example.file) or kind_by_first_line(first)


def readers_for(root: Path, files: tuple[Example, ...]) -> Readers:
    """The real readers over a directory with `files`."""
    for each in files:
        (root / each.file).parent.mkdir(parents=True, exist_ok=True)
        (root / each.file).write_text(each.text)
    names = tuple(each.file for each in files)
    tree = LintTree(root=root, listed=lambda: names, files=(), evidence=())
    return readers_of(tree, RepositoryTexts(root))


def reported(files: tuple[Example, ...], root: Path) -> tuple[Violation, ...]:
    """What lint reports of a repository with these files alone."""
    texts = {each.file: each.text for each in files}
    readers = readers_for(root, files)
    violations: list[Violation] = list(readers.consistency(texts, True))
    comments = {}
    families = {}
    for each in files:
        kind = kind_of(each)
        if kind is None:
            continue
        examined = examine(each.file, each.text, kind, readers, texts.get)
        violations += examined.violations
        violations += [violation_of(one, "") for one in examined.unreadable]
        comments[each.file] = directives(each.text, kind)
        families[each.file] = judged_families(
            examined.role, is_readable=not examined.unreadable, is_whole=True
        )
    request = SelectionRequest(
        rule_ids=lambda: IDS, settings=LintSettings(), paths=(".",), changes=None, baseline=None
    )
    return select(violations, comments, families, request).violations


@pytest.mark.parametrize(("rule", "files"), tuple(cases("bad")))
def test_a_bad_example_is_reported_at_a_line_of_its_own(
    rule: LintRule, files: tuple[Example, ...], tmp_path: Path
) -> None:
    lines = {each.file: each.text.count("\n") + 1 for each in files}

    own = [each for each in reported(files, tmp_path) if each.rule.id == rule.id]

    assert own
    for violation in own:
        assert 1 <= violation.place.line <= violation.place.end_line
        assert violation.place.line <= lines[violation.place.file]
        assert not violation.summary.endswith(".")


@pytest.mark.parametrize(("rule", "files"), tuple(cases("good")))
def test_a_good_example_is_not_reported(
    rule: LintRule, files: tuple[Example, ...], tmp_path: Path
) -> None:
    assert [each for each in reported(files, tmp_path) if each.rule.id == rule.id] == []


@pytest.mark.parametrize("rule", LINT_RULES, ids=IDS)
def test_a_rule_has_examples_a_meaning_and_a_remedy(rule: LintRule) -> None:
    assert rule.bad
    assert rule.good
    assert rule.rule.meaning.endswith(".")
    assert rule.rule.remedy


def test_the_ids_are_unique_and_of_a_known_family() -> None:
    rules = rules_for_catalogue()

    assert len({rule.id for rule in rules}) == len(rules)
    for rule in rules:
        assert re.fullmatch(rf"({'|'.join(FAMILIES)})/[a-z][a-z0-9-]+", rule.id)
