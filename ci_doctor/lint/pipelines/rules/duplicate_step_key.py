# SPDX-License-Identifier: Apache-2.0
"""Pure. Two steps with one key: Buildkite refuses the upload, GitHub the workflow."""

from collections.abc import Iterator
from typing import Final

from ci_doctor.lint.lint_rule import LintRule
from ci_doctor.lint.pipelines.examples import buildkite, job_steps
from ci_doctor.lint.pipelines.pipeline_context import PipelineContext
from ci_doctor.lint.pipelines.pipeline_file import FileKind, PipelineFile, PipelineStep
from ci_doctor.lint.pipelines.reading.yaml_nodes import ScalarNode
from ci_doctor.lint.violation import Violation
from ci_doctor.model.finding import Severity
from ci_doctor.model.rule import Rule

RULE: Final = LintRule(
    rule=Rule(
        id="pipeline/duplicate-step-key",
        severity=Severity.ERROR,
        meaning="Two steps have the same key. Buildkite refuses the upload, GitHub the workflow.",
        remedy="Give each step a key of its own.",
    ),
    bad=(
        buildkite("steps:\n  - {key: tests, command: make a}\n  - {key: tests, command: make b}\n"),
        buildkite("steps:\n  - {key: tests, command: make a}\n  - {wait: ~, key: tests}\n"),
        buildkite(
            "steps:\n  - {key: t, command: make a}\n  - group: g\n    steps: [{key: t, command: make b}]\n"
        ),
        buildkite(
            "steps:\n  - {group: a, key: g, steps: [{command: make}]}\n  - {group: b, key: g, steps: [{command: make}]}\n"
        ),
        job_steps("- {id: build, run: make a}\n- {id: build, run: make b}\n"),
        job_steps("- {id: build, run: make a}\n- {id: Build, run: make b}\n"),
    ),
    good=(
        buildkite("steps:\n  - {key: a, command: make a}\n  - {key: b, command: make b}\n"),
        # An upload-time condition keeps one of the two.
        buildkite(
            """
            steps:
              - {key: tests, command: make a, if: build.branch == "main"}
              - {key: tests, command: make b, if: build.branch != "main"}
            """
        ),
        job_steps("- {id: a, run: make a}\n- {id: b, run: make b}\n"),
        buildkite(
            "steps:\n  - {key: '$NAME', command: make a}\n  - {key: '$NAME', command: make b}\n"
        ),
    ),
)


def check(pipeline: PipelineFile, _context: PipelineContext) -> Iterator[Violation]:
    """Each key that a step before it in the same build or job has."""
    first: dict[tuple[int, str], tuple[PipelineStep, ScalarNode]] = {}
    github = pipeline.kind in (FileKind.WORKFLOW, FileKind.ACTION)
    for step in pipeline.steps:
        # `id` and `identifier` of a Buildkite step are other names of `key`.
        node = step.node.get("id") if github else step.node.get("key", "identifier")
        if not isinstance(node, ScalarNode) or not node.value or step.mirrored:
            continue
        if "$" in node.value or "{" in node.value:
            continue
        name = (id(step.job), node.value.lower() if github else node.value)
        before = first.setdefault(name, (step, node))
        if before[1] is node or (
            not github and (_is_conditional(step) or _is_conditional(before[0]))
        ):
            continue
        yield pipeline.violation(
            RULE,
            node,
            f"the key '{node.value}' is also that of the step in line {before[1].line}",
            related=(before[1],),
        )


def _is_conditional(step: PipelineStep) -> bool:
    """Buildkite leaves a step out of the build if its condition is false at the upload."""
    group = step.group
    return any(
        node is not None and node.get("if", "branches", "if_changed") is not None
        for node in (step.node, group)
    )
