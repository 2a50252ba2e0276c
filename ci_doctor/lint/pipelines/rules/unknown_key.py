# SPDX-License-Identifier: Apache-2.0
"""Pure. A key of a step or job that its reader does not know: Buildkite ignores it, GitHub refuses the file."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from ci_doctor.lint.lint_rule import LintRule
from ci_doctor.lint.pipelines.examples import buildkite, job_steps, workflow
from ci_doctor.lint.pipelines.pipeline_context import PipelineContext
from ci_doctor.lint.pipelines.pipeline_file import FileKind, PipelineFile, StepKind
from ci_doctor.lint.pipelines.reading.yaml_nodes import Field, MappingNode
from ci_doctor.lint.pipelines.step_keys import (
    BLOCK_KEYS,
    BUILDKITE_KEYS,
    COMMAND_KEYS,
    GENERATOR_KEYS,
    GROUP_KEYS,
    INPUT_KEYS,
    JOB_KEYS,
    PIPELINE_KEYS,
    TRIGGER_KEYS,
    WAIT_KEYS,
    WORKFLOW_KEYS,
    WORKFLOW_STEP_KEYS,
    nearest_key,
)
from ci_doctor.lint.violation import Violation
from ci_doctor.model.finding import Severity
from ci_doctor.model.rule import Rule

RULE: Final = LintRule(
    rule=Rule(
        id="pipeline/unknown-key",
        severity=Severity.ERROR,
        meaning="A step or a job has a key that its reader does not know. Buildkite ignores it, so a misspelt time limit limits nothing. GitHub refuses the workflow.",
        remedy="Write the key as the reference of the pipeline's steps spells it.",
    ),
    bad=(
        buildkite("steps:\n  - command: make\n    timeout_in_minute: 5\n"),
        buildkite("steps:\n  - command: make\n    artifacts_paths: '*.log'\n"),
        buildkite("steps:\n  - command: make\n    soft-fail: true\n"),
        buildkite("steps:\n  - command: make\n    dependson: build\n"),
        buildkite("steps:\n  - trigger: deploy\n    asyn: true\n"),
        buildkite("steps:\n  - command: make\n    timeout: 30\n"),
        buildkite("steps:\n  - {commands: [make], num_gpus: 2, soruce_file_dependencies: [a]}\n"),
        workflow("runs-on: ubuntu-24.04\ntimeout_minutes: 5\nsteps:\n- run: make\n"),
        job_steps("- run: make\n  continue_on_error: true\n"),
        job_steps("- uses: actions/checkout@v5\n  args: x\n"),
    ),
    good=(
        buildkite("steps:\n  - command: make\n    timeout_in_minutes: 5\n"),
        buildkite("common: &c {A: '1'}\nsteps:\n  - command: make\n    env: *c\n"),
        # Keys of a generator are its own business.
        buildkite("steps:\n  - command: make\n    bazel_cache: true\n"),
        buildkite(
            "steps:\n  - command: make\n    num_gpus: 2\n    working_dir: /tests\n    owner: me\n"
        ),
        job_steps("- run: make\n  continue-on-error: true\n"),
    ),
)

# What GitHub, GitLab and others call the keys of a Buildkite step.
_ELSEWHERE: Final = {
    "timeout": "timeout_in_minutes",
    "timeout-minutes": "timeout_in_minutes",
    "timeout_minutes": "timeout_in_minutes",
    "timeout_in_min": "timeout_in_minutes",
    "timeout_in_mins": "timeout_in_minutes",
    "timeout_in_seconds": "timeout_in_minutes",
    "time_limit": "timeout_in_minutes",
    "depends": "depends_on",
    "dependencies": "depends_on",
    "cmd": "command",
    "parallel": "parallelism",
    "needs": "depends_on",
    "environment": "env",
    "run": "command",
    "artifacts": "artifact_paths",
    "retries": "retry",
    "continue-on-error": "soft_fail",
    "allow_failure": "soft_fail",
    "queue": "agents",
}
_SHORT, _LONG, _MANY = 5, 8, 5
_OF_KIND: Final = {
    StepKind.COMMAND: COMMAND_KEYS,
    StepKind.WAIT: WAIT_KEYS,
    StepKind.BLOCK: BLOCK_KEYS,
    StepKind.INPUT: INPUT_KEYS,
    StepKind.TRIGGER: TRIGGER_KEYS,
    StepKind.GROUP: GROUP_KEYS,
}


def check(pipeline: PipelineFile, _context: PipelineContext) -> Iterator[Violation]:
    """Keys by what reads the file."""
    match pipeline.kind:
        case FileKind.WORKFLOW:
            yield from _github(pipeline)
        case FileKind.BUILDKITE:
            yield from _buildkite(pipeline)
        case FileKind.OWN_STEPS:
            yield from _generator(pipeline)
        case FileKind.ACTION | FileKind.DATA:
            return


def _github(pipeline: PipelineFile) -> Iterator[Violation]:
    root = pipeline.root
    holders = [("a job", job.node, JOB_KEYS) for job in pipeline.jobs]
    holders += [("a step", step.node, WORKFLOW_STEP_KEYS) for step in pipeline.steps]
    if root is not None and root.get("jobs") is not None:
        holders.append(("a workflow", root, WORKFLOW_KEYS))
    for where, node, known in holders:
        for field in _own(node, known):
            # Without a likely meaning, it may be newer than the table.
            severity = None if _meant(field.key.value, known) else Severity.WARNING
            yield _violation(pipeline, field, where, known, "GitHub refuses the file", severity)


def _buildkite(pipeline: PipelineFile) -> Iterator[Violation]:
    root = pipeline.root
    for field in _own(root, PIPELINE_KEYS) if root else ():
        # A pipeline may hold anchors under any name; only a misspelt name is reported.
        if nearest_key(field.key.value, PIPELINE_KEYS) and field.key.value not in BUILDKITE_KEYS:
            yield _violation(pipeline, field, "a pipeline", PIPELINE_KEYS, "Buildkite ignores it")
    for step in pipeline.steps:
        known = _OF_KIND[step.kind]
        for field in _own(step.node, known):
            # Without a likely meaning, it may be the key of a generator.
            if _meant(field.key.value, known):
                words = f"a {step.kind} step"
                yield _violation(pipeline, field, words, known, "Buildkite ignores it")


def _generator(pipeline: PipelineFile) -> Iterator[Violation]:
    """A key used once that nearly is a known one: a long one, or the one that steps beside it use."""
    used = Counter(name for step in pipeline.steps for name in step.node.fields)
    known = BUILDKITE_KEYS | GENERATOR_KEYS
    beside = frozenset(name for name in known if used[name] >= _MANY)
    for step in pipeline.steps:
        for field in _own(step.node, known):
            name = field.key.value
            if used[name] != 1:
                continue
            among = known if len(name) >= _LONG else beside
            nearest = nearest_key(name, among) if len(name) > _SHORT and among else None
            if nearest:
                reason = "a generator ignores what it does not know"
                yield _violation(pipeline, field, "a step", among, reason, Severity.WARNING)


def _meant(name: str, known: frozenset[str]) -> str | None:
    """The key that was meant: spelt nearly so, or what another CI calls it."""
    other = _ELSEWHERE.get(name)
    return other if other in known else nearest_key(name, known)


def _own(node: MappingNode, known: frozenset[str]) -> list[Field]:
    return [
        field
        for name, field in node.fields.items()
        if name not in known and not field.merged and "{" not in name and "$" not in name
    ]


def _violation(
    pipeline: PipelineFile,
    field: Field,
    where: str,
    known: frozenset[str],
    effect: str,
    severity: Severity | None = None,
) -> Violation:
    name = field.key.value
    nearest = _meant(name, known)
    return pipeline.violation(
        RULE,
        field.key,
        f"'{name}' is no key of {where}: {effect}",
        remedy=f"Write `{nearest}`." if nearest else None,
        severity=severity,
    )
