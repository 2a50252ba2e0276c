# SPDX-License-Identifier: Apache-2.0
"""Pure. Uses of a matrix variable that the matrix does not have."""

import re
from collections.abc import Iterator
from typing import Final

from ci_doctor.lint.lint_rule import LintRule
from ci_doctor.lint.pipelines.examples import buildkite, workflow
from ci_doctor.lint.pipelines.pipeline_context import PipelineContext
from ci_doctor.lint.pipelines.pipeline_file import FileKind, PipelineFile
from ci_doctor.lint.pipelines.reading.yaml_nodes import (
    MappingNode,
    Node,
    ScalarNode,
    items_of,
    mapping_of,
    walk,
)
from ci_doctor.lint.violation import Violation
from ci_doctor.model.finding import Severity
from ci_doctor.model.rule import Rule

RULE: Final = LintRule(
    rule=Rule(
        id="pipeline/unknown-matrix-value",
        severity=Severity.ERROR,
        meaning="A step uses a variable that its matrix does not have. Buildkite refuses the upload; GitHub puts nothing in its place, and the step tests something else than its name says.",
        remedy="Write the name of a variable of the matrix, or add the variable to it.",
    ),
    bad=(
        buildkite(
            "steps:\n  - command: pytest --gpu {{matrix.gpu}}\n    matrix:\n      setup:\n        device: [a100, h100]\n"
        ),
        buildkite("steps:\n  - command: pytest {{matrix.model}}\n    matrix: [opt, llama]\n"),
        buildkite("steps:\n  - command: pytest {{matrix}}\n    label: tests\n"),
        workflow(
            "runs-on: x\nstrategy:\n  matrix:\n    python: ['3.11', '3.12']\nsteps:\n- run: tox -e ${{ matrix.python-version }}\n"
        ),
        workflow("runs-on: ${{ matrix.os }}\nsteps:\n- run: make\n"),
    ),
    good=(
        buildkite(
            "steps:\n  - command: pytest --gpu {{matrix.gpu}}\n    matrix:\n      setup:\n        gpu: [a100, h100]\n"
        ),
        buildkite("steps:\n  - command: pytest {{matrix}}\n    matrix: [opt, llama]\n"),
        workflow(
            "runs-on: x\nstrategy:\n  matrix:\n    python: ['3.11', '3.12']\n    include:\n    - {python: '3.13', flags: --pre}\nsteps:\n- run: tox -e ${{ matrix.python }} ${{ matrix.flags }}\n"
        ),
        workflow(
            "runs-on: x\nstrategy:\n  matrix: ${{ fromJSON(needs.plan.outputs.matrix) }}\nsteps:\n- run: make ${{ matrix.any }}\n"
        ),
    ),
)

_BUILDKITE = re.compile(r"\{\{\s*matrix(?:\.([\w-]+))?\s*\}\}")
_GITHUB = re.compile(r"(?<![\w.-])matrix\.([A-Za-z_][\w-]*)")
_EXPRESSION = re.compile(r"\$\{\{((?:(?!\$\{\{).)*?)\}\}", re.DOTALL)
_STRINGS = re.compile(r"'[^']*'")


def check(pipeline: PipelineFile, _context: PipelineContext) -> Iterator[Violation]:
    """Names behind `matrix.` by step or job."""
    if pipeline.kind is FileKind.WORKFLOW:
        yield from _workflow(pipeline)
    elif pipeline.kind is FileKind.BUILDKITE:
        yield from _pipeline(pipeline)


def _pipeline(pipeline: PipelineFile) -> Iterator[Violation]:
    visited: set[int] = set()
    for step in pipeline.commands:
        if id(step.node) in visited:
            continue
        visited.add(id(step.node))
        matrix = step.node.get("matrix")
        known = _setup(matrix)
        if known is None:
            continue
        for node in _texts(step.node, "matrix"):
            for match in _BUILDKITE.finditer(node.value):
                name = match[1] or ""
                if name not in known:
                    yield _report(pipeline, node, step.name, match[0], known, matrix)
                    break


def _setup(matrix: Node | None) -> set[str] | None:
    """The names that a matrix of Buildkite has; the empty one for a plain list; None if that is not known."""
    if matrix is None:
        return set()
    if isinstance(matrix, MappingNode):
        setup = matrix.get("setup")
        if isinstance(setup, MappingNode):
            return set(setup.fields)
        return {""} if items_of(setup) else None
    return {""} if items_of(matrix) else None


def _texts(node: Node, left_out: str) -> Iterator[ScalarNode]:
    for name, field in node.fields.items() if isinstance(node, MappingNode) else ():
        if name != left_out:
            yield from (each for each in walk(field.value) if isinstance(each, ScalarNode))


def _workflow(pipeline: PipelineFile) -> Iterator[Violation]:
    for job in pipeline.jobs:
        strategy = mapping_of(job.node.get("strategy"))
        matrix = strategy.get("matrix") if strategy else None
        known = _names(matrix)
        if known is None:
            continue
        for node in _texts(job.node, "\0"):
            if matrix is not None and node.line >= matrix.line and _inside(node, matrix):
                continue
            expressions = _EXPRESSION.findall(node.value)
            used = {
                name
                for each in expressions
                for name in _GITHUB.findall(_STRINGS.sub("", each))
                if name.lower() not in known
            }
            for name in sorted(used)[:1]:
                where = f"the job '{job.id}'"
                yield _report(pipeline, node, where, f"matrix.{name}", known, matrix)


def _inside(node: ScalarNode, matrix: Node) -> bool:
    return any(each is node for each in walk(matrix))


def _names(matrix: Node | None) -> set[str] | None:
    """The names of a matrix of GitHub in small letters; None if an expression makes it."""
    if matrix is None:
        return set()
    if not isinstance(matrix, MappingNode):
        return None
    names = {name.lower() for name in matrix.fields if name not in ("include", "exclude")}
    include = matrix.get("include")
    if isinstance(include, ScalarNode):
        return None
    for each in items_of(include):
        entry = mapping_of(each)
        if entry is None:
            return None
        names |= {name.lower() for name in entry.fields}
    return names


def _report(
    pipeline: PipelineFile,
    node: ScalarNode,
    where: str,
    used: str,
    known: set[str],
    matrix: Node | None,
) -> Violation:
    names = ", ".join(f"`{each}`" for each in sorted(known) if each)
    if matrix is None:
        said = f"{where} uses `{used}` and has no matrix"
    elif known == {""}:
        said = f"{where} uses `{used}`, and its matrix is a plain list: `{{{{matrix}}}}`"
    else:
        said = f"{where} uses `{used}`, and its matrix has only {names or 'no variable'}"
    line = pipeline.lines[node.line - 1].lstrip(" -")
    return pipeline.violation(
        RULE,
        node,
        said,
        severity=Severity.WARNING if line.startswith("name:") else None,
        remedy=f"Write one of {names}." if names else None,
        related=(matrix,) if matrix else (),
    )
