# SPDX-License-Identifier: Apache-2.0
"""Pure. A version without quotes that YAML reads as a number: 3.10 is 3.1."""

import re
from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from ci_doctor.lint.lint_rule import LintRule
from ci_doctor.lint.pipelines.examples import buildkite, job_steps, whole_workflow, workflow
from ci_doctor.lint.pipelines.pipeline_context import PipelineContext
from ci_doctor.lint.pipelines.pipeline_file import FileKind, PipelineFile
from ci_doctor.lint.pipelines.reading.yaml_nodes import MappingNode, ScalarNode, scalars_of, walk
from ci_doctor.lint.violation import Violation
from ci_doctor.model.finding import Severity
from ci_doctor.model.rule import Rule

RULE: Final = LintRule(
    rule=Rule(
        id="pipeline/version-as-number",
        severity=Severity.ERROR,
        meaning="A version stands without quotes and ends in 0. YAML reads it as a number, so the 0 is lost: Python 3.10 becomes 3.1.",
        remedy="Put the version in quotes.",
    ),
    bad=(
        job_steps("- uses: actions/setup-python@v6\n  with: {python-version: 3.10}\n"),
        workflow(
            "strategy: {matrix: {python-version: [3.10, 3.11]}}\nruns-on: ubuntu-24.04\nsteps:\n- run: make\n"
        ),
        workflow(
            "strategy:\n  matrix:\n    include:\n    - python: 3.10\nruns-on: ubuntu-24.04\nsteps:\n- run: make\n"
        ),
        whole_workflow(
            "on: push\nenv:\n  GO_VERSION: 1.20\njobs: {a: {runs-on: x, steps: [{run: make}]}}\n"
        ),
        buildkite("steps:\n  - command: make\n    env: {PYTHON_VERSION: 3.10}\n"),
        buildkite("steps:\n  - command: make\n    matrix: {setup: {python: [3.9, 3.10]}}\n"),
    ),
    good=(
        job_steps("- uses: actions/setup-python@v6\n  with: {python-version: '3.10'}\n"),
        job_steps("- uses: actions/setup-python@v6\n  with: {python-version: 3.11}\n"),
        job_steps("- uses: actions/setup-go@v6\n  with: {go-version: 1.20.0}\n"),
        workflow(
            "strategy: {matrix: {threshold: [0.10, 0.20]}}\nruns-on: ubuntu-24.04\nsteps:\n- run: make\n"
        ),
    ),
)

_LOSES = re.compile(r"\d+\.\d*[1-9]0")
_NAMES = re.compile(
    r"version|python|(?:^|[_-])(?:cuda|rocm|torch|pytorch|go|node|ruby|py)$", re.IGNORECASE
)
# `version: 3.10` of the file's own format is read by something else.
_NOT_VERSIONS = frozenset({"version"})


def check(pipeline: PipelineFile, _context: PipelineContext) -> Iterator[Violation]:
    """Plain scalars below a key that names a version."""
    if pipeline.kind is FileKind.DATA:
        return
    for document in pipeline.documents:
        for node in walk(document):
            if not isinstance(node, MappingNode):
                continue
            for name, field in node.fields.items():
                if field.merged or not _NAMES.search(name) or name in _NOT_VERSIONS:
                    continue
                yield from _numbers(pipeline, name, scalars_of(field.value))
                if isinstance(field.value, MappingNode):
                    yield from _numbers(pipeline, name, scalars_of(field.value.get("default")))


def _numbers(pipeline: PipelineFile, name: str, values: list[ScalarNode]) -> Iterator[Violation]:
    for value in values:
        if value.style == "" and value.tag is None and _LOSES.fullmatch(value.value):
            short = value.value.rstrip("0")
            violation = pipeline.violation(
                RULE,
                value,
                f"'{name}' is the number {short}, not the version {value.value}",
                remedy=f'Write `"{value.value}"`.',
            )
            yield replace(violation, edits=pipeline.replace(value, f'"{value.value}"'))
