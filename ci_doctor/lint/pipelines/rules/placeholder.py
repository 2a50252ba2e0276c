# SPDX-License-Identifier: Apache-2.0
"""Pure. A value that nobody filled in, judged by its siblings: values at the same place of entries like it."""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Final

from ci_doctor.lint.lint_rule import LintRule
from ci_doctor.lint.pipelines.examples import buildkite, workflow
from ci_doctor.lint.pipelines.pipeline_context import PipelineContext
from ci_doctor.lint.pipelines.pipeline_file import PipelineFile
from ci_doctor.lint.pipelines.reading.yaml_nodes import (
    MappingNode,
    Node,
    ScalarNode,
    SequenceNode,
)
from ci_doctor.lint.violation import Violation
from ci_doctor.model.finding import Severity
from ci_doctor.model.rule import Rule


def _entries(last: str) -> str:
    links = [f"https://github.com/org/repo/pull/{number}" for number in range(1200, 1209)]
    return "".join(f"- key: a\n  link: {link}\n" for link in [*links, last])


def _steps(last: str) -> str:
    owners = [f"team-{number}" for number in range(9)]
    steps = "".join(f"  - {{command: make, label: {each}}}\n" for each in [*owners, last])
    return f"steps:\n{steps}"


RULE: Final = LintRule(
    rule=Rule(
        id="pipeline/placeholder",
        severity=Severity.WARNING,
        meaning="All values at this place of the file have one shape, and one of them still holds what stood in the template.",
        remedy="Write the value that belongs here.",
    ),
    bad=(
        buildkite(_entries("https://github.com/org/repo/pull/XXX")),
        buildkite(_entries("https://github.com/org/repo/pull/TBD")),
        buildkite(_entries("https://github.com/org/repo/pull/<number>")),
        buildkite(_entries("https://github.com/org/repo/pull/")),
        buildkite(_entries("https://github.com/org/repo/pull/12O4")),
        buildkite(_entries("TODO")),
        buildkite(_entries("'???'")),
        buildkite(_steps("XXX")),
        buildkite(_steps("FIXME")),
        workflow(
            "runs-on: x\nstrategy:\n  matrix:\n    include:\n"
            + "".join(f"    - {{digest: 'build-{number}'}}\n" for number in range(100, 109))
            + "    - {digest: 'build-TODO'}\nsteps:\n- run: make\n"
        ),
    ),
    good=(
        buildkite(_entries("https://github.com/org/repo/pull/1300")),
        # Another repository is no placeholder.
        buildkite(_entries("https://github.com/org/other/pull/7")),
        buildkite(_entries("https://github.com/org/repo/issues/77")),
        # A word alone, without siblings that are filled in.
        buildkite("steps:\n  - {command: make, label: XXX}\n"),
        buildkite(_steps("TODO list of the team")),
    ),
)

_FEWEST = 8
# Most of the siblings have the usual shape.
_USUAL = 0.8
_LONGEST = 300
_DIGITS = re.compile(r"\d+")
_WORDS: Final = re.compile(
    r"X{3,}|x{4,}|TBD|TODO|FIXME|CHANGE[_-]?ME|PLACEHOLDER|REPLACE[_-]?ME|\?{2,}|<[a-zA-Z][\w -]*>|N{3,}|to be (?:determined|filled|added)",
)


def check(pipeline: PipelineFile, _context: PipelineContext) -> Iterator[Violation]:
    """Values that differ from their siblings as a placeholder does."""
    for document in pipeline.documents:
        for siblings in _groups(document).values():
            if len(siblings) >= _FEWEST:
                yield from _outliers(pipeline, siblings)


def _groups(document: Node) -> dict[tuple[str, ...], list[ScalarNode]]:
    """Scalars by their place, where all items of a list are one place, as are entries of one form."""
    groups: dict[tuple[str, ...], list[ScalarNode]] = {}
    visited: set[int] = set()
    waiting: list[tuple[tuple[str, ...], Node]] = [((), document)]
    while waiting:
        path, node = waiting.pop()
        if isinstance(node, ScalarNode):
            if len(node.value) <= _LONGEST:
                groups.setdefault(path, []).append(node)
            continue
        if id(node) in visited or len(path) > 12:
            continue
        visited.add(id(node))
        if isinstance(node, SequenceNode):
            below = (*path, "*")
            waiting.extend((below, each) for each in reversed(node.items))
        else:
            entries = _are_entries(node)
            waiting.extend(
                ((*path, "*" if entries else name), field.value)
                for name, field in reversed(node.fields.items())
                if not field.merged
            )
    return groups


def _are_entries(node: MappingNode) -> bool:
    """Whether the keys are names of entries like each other, and not fields."""
    values = [field.value for field in node.fields.values()]
    if len(values) < _FEWEST or not all(isinstance(each, MappingNode) for each in values):
        return False
    names = Counter(
        name for each in values if isinstance(each, MappingNode) for name in each.fields
    )
    return bool(names) and names.most_common(1)[0][1] >= _USUAL * len(values)


def _outliers(pipeline: PipelineFile, siblings: list[ScalarNode]) -> Iterator[Violation]:
    shapes = Counter(_DIGITS.sub("#", node.value) for node in siblings)
    usual, count = shapes.most_common(1)[0]
    filled = [node for node in siblings if not _WORDS.search(node.value)]
    numbered = usual.endswith("#") and usual.count("#") == 1 and count >= _USUAL * len(siblings)
    if len(filled) < _USUAL * len(siblings):
        return
    prefix = usual.split("#", 1)[0]
    for node in siblings:
        if numbered and len(prefix) >= 8 and _lacks_number(node.value, usual, prefix):
            summary = f"'{node.value}' stands where {count} values like it have a number"
        elif _is_placeholder(node.value, shapes, numbered=numbered, prefix=prefix):
            summary = f"'{node.value}' stands where {len(filled)} values like it are filled in"
        else:
            continue
        example = next(each for each in siblings if _DIGITS.sub("#", each.value) == usual)
        yield pipeline.violation(
            RULE,
            node,
            summary,
            remedy=f"Write a value such as `{example.value[:100]}`.",
            related=(example,),
        )


def _lacks_number(value: str, usual: str, prefix: str) -> bool:
    """The usual beginning, and then no number but a word or nothing in its place."""
    if not value.startswith(prefix) or _DIGITS.sub("#", value) == usual:
        return False
    rest = value[len(prefix) :]
    return re.fullmatch(r"\d*[A-Za-z<>?_-]+[\w<>?-]*|", rest) is not None


def _is_placeholder(value: str, shapes: Counter[str], *, numbered: bool, prefix: str) -> bool:
    """All of it is a word that means nothing, or its end after the beginning of its siblings."""
    match = _WORDS.search(value)
    if match is None:
        return False
    if match.group() == value.strip():
        return shapes[_DIGITS.sub("#", value)] <= 2
    return numbered and len(prefix) >= 3 and value.startswith(prefix) and match.end() == len(value)
