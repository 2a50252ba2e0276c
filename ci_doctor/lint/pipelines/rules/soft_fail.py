# SPDX-License-Identifier: Apache-2.0
"""Pure. A step whose failure, of whatever kind, never fails the build."""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Final

from ci_doctor.lint.lint_rule import LintRule
from ci_doctor.lint.pipelines.examples import buildkite, workflow
from ci_doctor.lint.pipelines.pipeline_context import PipelineContext
from ci_doctor.lint.pipelines.pipeline_file import FileKind, PipelineFile, PipelineStep, StepKind
from ci_doctor.lint.pipelines.reading.yaml_nodes import (
    MappingNode,
    Node,
    ScalarNode,
    is_true,
    items_of,
    text_of,
)
from ci_doctor.lint.pipelines.scripts import command_texts
from ci_doctor.lint.violation import Violation
from ci_doctor.model.finding import Severity
from ci_doctor.model.rule import Rule

RULE: Final = LintRule(
    rule=Rule(
        id="pipeline/soft-fail",
        severity=Severity.WARNING,
        meaning="Every failure of this step leaves the build green: a regression, a broken environment and a lost agent alike.",
        remedy="Let only the status pass that may: `soft_fail: [{exit_status: 85}]`, which ci-doctor uses for a difference that the environment makes on its own.",
    ),
    bad=(
        buildkite("steps:\n  - command: pytest tests\n    soft_fail: true\n"),
        buildkite("steps:\n  - command: pytest tests\n    soft_fail:\n      - exit_status: '*'\n"),
        buildkite("steps:\n  - commands: [cd tests, ./run_tests.sh]\n    soft_fail: True\n"),
        buildkite("s: &s {soft_fail: true}\nsteps:\n  - command: pytest tests\n    <<: *s\n"),
        buildkite("steps:\n  - command: pytest tests\n    num_gpus: 2\n    soft_fail: true\n"),
        workflow("runs-on: ubuntu-24.04\ncontinue-on-error: true\nsteps:\n- run: pytest tests\n"),
    ),
    good=(
        buildkite("steps:\n  - command: pytest tests\n    soft_fail: [{exit_status: 85}]\n"),
        buildkite("steps:\n  - command: pytest tests\n    soft_fail: false\n"),
        # Another step reads how this one ended.
        buildkite(
            """
            steps:
              - key: accuracy
                command: pytest tests
                soft_fail: true
              - depends_on: accuracy
                command: ./judge.sh $(buildkite-agent step get outcome --step accuracy)
            """
        ),
        workflow(
            "runs-on: ubuntu-24.04\ncontinue-on-error: ${{ matrix.nightly }}\nsteps:\n- run: pytest tests\n"
        ),
    ),
)

_TESTS = re.compile(
    r"\b(?:pytest|unittest|tox|nox|ctest|go test|cargo test|bats|lm_eval|jest|vitest)\b"
    r"|\btests?[/_.-]|[/_-]tests?\b|\b(?:make|npm|yarn|pnpm)(?: run)? [\w-]*test|\bcheck[/_.-]|\beval\b|\bverify",
    re.IGNORECASE,
)

_RESULT = re.compile(r"\bneeds\.([\w-]+)\.(?:result|outputs)\b")
_NAME = re.compile(r"[^\s\"'=;&|()]{3,200}")


def check(pipeline: PipelineFile, _context: PipelineContext) -> Iterator[Violation]:
    """Steps of Buildkite and jobs of GitHub; a note where nothing looks like a test."""
    if pipeline.kind is FileKind.WORKFLOW:
        yield from _jobs(pipeline)
        return
    named = _names_in_commands(pipeline)
    visited: set[int] = set()
    for step in pipeline.steps:
        node = step.node.get("soft_fail")
        if (
            step.kind not in (StepKind.COMMAND, StepKind.TRIGGER)
            or node is None
            or id(node) in visited
        ):
            continue
        if _softens_all(node) and not _outcome_is_read(named, step):
            visited.add(id(node))
            yield pipeline.violation(
                RULE,
                node,
                f"no failure of {step.name} fails the build",
                severity=None if _tests(step) else Severity.NOTE,
            )


def _softens_all(node: Node) -> bool:
    if is_true(node):
        return True
    listed = [node] if isinstance(node, MappingNode) else items_of(node)
    return any(
        isinstance(each, MappingNode) and text_of(each.get("exit_status")) == "*" for each in listed
    )


def _tests(step: PipelineStep) -> bool:
    return any(_TESTS.search(command.value) for command in command_texts(step))


def _names_in_commands(pipeline: PipelineFile) -> Counter[str]:
    """In how many steps' commands each word stands, if it may be a key."""
    counts: Counter[str] = Counter()
    if not any(step.node.get("soft_fail") is not None for step in pipeline.steps):
        return counts
    for step in pipeline.commands:
        counts.update({word for text in command_texts(step) for word in _NAME.findall(text.value)})
    return counts


def _outcome_is_read(named: Counter[str], step: PipelineStep) -> bool:
    """Whether a command of another step names this step's key."""
    key = text_of(step.node.get("key", "id", "identifier"))
    if not key or len(key) < 3:
        return False
    own = any(key in _NAME.findall(command.value) for command in command_texts(step))
    return named[key] > own


def _jobs(pipeline: PipelineFile) -> Iterator[Violation]:
    read = set(_RESULT.findall(pipeline.text))
    for job in pipeline.jobs:
        node = job.node.get("continue-on-error")
        if not isinstance(node, ScalarNode) or not is_true(node) or job.id in read:
            continue
        tests = any(_tests(step) for step in pipeline.job_steps.get(job.id, ()))
        yield pipeline.violation(
            RULE,
            node,
            f"no failure of the job '{job.id}' fails the workflow",
            remedy="Remove it, or read the job's result in a later job.",
            severity=None if tests else Severity.NOTE,
        )
