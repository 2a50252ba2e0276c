# SPDX-License-Identifier: Apache-2.0
"""Pure. A key that stands twice in one mapping: readers take the last one, or refuse the file."""

from collections.abc import Iterator
from typing import Final

from ci_doctor.lint.lint_rule import LintRule
from ci_doctor.lint.pipelines.examples import buildkite, job_steps, workflow
from ci_doctor.lint.pipelines.pipeline_context import PipelineContext
from ci_doctor.lint.pipelines.pipeline_file import PipelineFile
from ci_doctor.lint.pipelines.reading.yaml_nodes import Field, MappingNode, text_of, walk
from ci_doctor.lint.violation import Violation
from ci_doctor.model.finding import Severity
from ci_doctor.model.rule import Rule

RULE: Final = LintRule(
    rule=Rule(
        id="pipeline/duplicate-key",
        severity=Severity.ERROR,
        meaning="A key stands twice in one mapping. Some readers refuse the file, others drop the first value without a word.",
        remedy="Keep one of the two, or merge their values.",
    ),
    bad=(
        buildkite(
            """
            steps:
              - label: tests
                command: make test
                command: make lint
            """
        ),
        buildkite("env:\n  A: '1'\n  A: '2'\nsteps:\n  - command: make\n"),
        buildkite("steps:\n  - {command: make, timeout_in_minutes: 5, timeout_in_minutes: 50}\n"),
        buildkite('steps:\n  - command: make\n    "command": make all\n'),
        job_steps("- run: make\n  env:\n    CI: '1'\n  env:\n    MODE: fast\n"),
        workflow("runs-on: ubuntu-24.04\nsteps:\n- run: make\nruns-on: ubuntu-22.04\n"),
    ),
    good=(
        buildkite("steps:\n  - command: [make test, make lint]\n"),
        buildkite("x: &x {A: '1'}\nenv:\n  <<: *x\n  A: '2'\nsteps:\n  - command: make\n"),
        buildkite("steps:\n  - command: make\n  - command: make\n"),
    ),
)


def check(pipeline: PipelineFile, _context: PipelineContext) -> Iterator[Violation]:
    """Each key that stands again, at its second place."""
    for document in pipeline.documents:
        for node in walk(document):
            if isinstance(node, MappingNode):
                for first, again in node.repeated:
                    yield _violation(pipeline, first, again)


def _violation(pipeline: PipelineFile, first: Field, again: Field) -> Violation:
    name = again.key.value
    same = text_of(first.value) is not None and text_of(first.value) == text_of(again.value)
    ending = "with the same value" if same else f"and hides the value of line {first.key.line}"
    return pipeline.violation(
        RULE,
        again.key,
        f"the key '{name}' stands again in this mapping, {ending}",
        severity=Severity.WARNING if same else None,
        related=(first.key,),
    )
