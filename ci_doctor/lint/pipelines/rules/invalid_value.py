# SPDX-License-Identifier: Apache-2.0
"""Pure. Values that the reader of a pipeline refuses, or cannot mean what they say."""

from collections.abc import Iterator
from typing import Final

from ci_doctor.lint.lint_rule import LintRule
from ci_doctor.lint.pipelines.examples import buildkite, job_steps, workflow
from ci_doctor.lint.pipelines.pipeline_context import PipelineContext
from ci_doctor.lint.pipelines.pipeline_file import FileKind, PipelineFile, PipelineStep
from ci_doctor.lint.pipelines.reading.yaml_nodes import (
    MappingNode,
    Node,
    ScalarNode,
    SequenceNode,
    items_of,
    mapping_of,
    scalars_of,
    text_of,
    whole_number,
)
from ci_doctor.lint.pipelines.word_sets import words
from ci_doctor.lint.violation import Violation
from ci_doctor.model.finding import Severity
from ci_doctor.model.rule import Rule

RULE: Final = LintRule(
    rule=Rule(
        id="pipeline/invalid-value",
        severity=Severity.ERROR,
        meaning="A key of a step has a value that Buildkite or GitHub does not accept, or two keys exclude each other.",
        remedy="Write a value that the reference of the pipeline's steps allows.",
    ),
    bad=(
        buildkite("steps:\n  - command: make\n    timeout_in_minutes: 30m\n"),
        buildkite("steps:\n  - command: make\n    retry: {automatic: [{exit_status: 300}]}\n"),
        buildkite(
            "steps:\n  - command: make\n    retry: {automatic: [{exit_status: 75, limit: 20}]}\n"
        ),
        buildkite(
            "steps:\n  - command: make\n    retry: {automatic: [{signal_reason: agent_lost}]}\n"
        ),
        buildkite("steps:\n  - command: make\n    retry: {exit_status: 75}\n"),
        buildkite("steps:\n  - command: make\n    concurrency: 1\n"),
        buildkite("steps:\n  - command: make\n    soft_fail: [{exit_status: [1, 2]}]\n"),
        buildkite("steps:\n  - command: make\n    branches: main\n    if: build.tag != null\n"),
        workflow("runs-on: ubuntu-24.04\ntimeout-minutes: 30m\nsteps:\n- run: make\n"),
        workflow("steps:\n- run: make\n"),
        job_steps("- run: make\n  timeout-minutes: 10 min\n"),
        job_steps("- run: make\n  uses: actions/checkout@v5\n"),
        job_steps("- name: nothing\n"),
    ),
    good=(
        buildkite("steps:\n  - command: make\n    timeout_in_minutes: '30'\n"),
        buildkite("steps:\n  - command: make\n    timeout_in_minutes: ${LIMIT}\n"),
        buildkite(
            "steps:\n  - command: make\n    retry: {automatic: [{exit_status: [-1, 255], limit: 10}]}\n"
        ),
        buildkite(
            "steps:\n  - command: make\n    retry: {automatic: [{signal_reason: agent_stop}], manual: false}\n"
        ),
        buildkite("steps:\n  - command: make\n    concurrency: 1\n    concurrency_group: gpu\n"),
        workflow(
            "runs-on: ubuntu-24.04\ntimeout-minutes: ${{ inputs.limit }}\nsteps:\n- run: make\n"
        ),
        workflow("uses: ./.github/workflows/x.yml\n"),
    ),
)

_REASONS: Final = words(
    "* none cancel agent_stop agent_refused agent_incompatible process_run_error signature_rejected stack_error"
)
# What a step of GitHub does; the later ones steer steps that run at the same time.
_WORK: Final = ("run", "uses", "parallel", "wait", "wait-all", "cancel")
Problem = tuple[Node, str]


def check(pipeline: PipelineFile, _context: PipelineContext) -> Iterator[Violation]:
    """Values of steps and jobs; a value that is filled in later is left alone."""
    visited: set[tuple[int, str]] = set()
    for node, problem in _problems(pipeline):
        if (id(node), problem) not in visited:
            visited.add((id(node), problem))
            yield pipeline.violation(RULE, node, problem)
    if pipeline.kind in (FileKind.BUILDKITE, FileKind.OWN_STEPS):
        yield from _unused_statuses(pipeline)


def _problems(pipeline: PipelineFile) -> Iterator[Problem]:
    match pipeline.kind:
        case FileKind.BUILDKITE | FileKind.OWN_STEPS:
            for step in pipeline.commands:
                yield from _buildkite(step)
        case FileKind.WORKFLOW:
            yield from _workflow(pipeline)
        case FileKind.ACTION:
            for step in pipeline.steps:
                yield from _github_step(step)
        case FileKind.DATA:
            return


def _buildkite(step: PipelineStep) -> Iterator[Problem]:
    node = step.node
    limit = node.get("timeout_in_minutes")
    if limit is not None and _is_no_number(limit):
        yield limit, f"the time limit '{text_of(limit)}' is no whole number of minutes"
    group = node.get("concurrency")
    if (
        whole_number(group) is not None
        and group is not None
        and node.get("concurrency_group") is None
    ):
        yield group, "`concurrency` without `concurrency_group`: Buildkite refuses the upload"
    branches = node.get("branches")
    if branches is not None and node.get("if") is not None:
        yield branches, "`branches` and `if` exclude each other"
    soft = node.get("soft_fail")
    for each in soft.items if isinstance(soft, SequenceNode) else ():
        status = each.get("exit_status") if isinstance(each, MappingNode) else None
        if isinstance(status, SequenceNode):
            yield status, "`soft_fail` takes one exit status an entry, not a list"
    retry = node.get("retry")
    if retry is not None:
        yield from _retry(retry)


def _is_no_number(node: Node) -> bool:
    text = text_of(node)
    if text is None or not text or text in ("~", "null") or "$" in text or "{" in text:
        return False
    return whole_number(node) is None


def _retry(retry: Node) -> Iterator[Problem]:
    if not isinstance(retry, MappingNode):
        if text_of(retry) not in ("", "~", "null", None):
            yield retry, "`retry` takes `automatic` and `manual`, not a value"
        return
    if retry.fields and retry.get("automatic", "manual") is None:
        yield next(iter(retry.fields.values())).key, "`retry` takes only `automatic` and `manual`"
    automatic = retry.get("automatic")
    for rule in automatic.items if isinstance(automatic, SequenceNode) else (automatic,):
        if isinstance(rule, MappingNode):
            yield from _rule(rule)


def _rule(rule: MappingNode) -> Iterator[Problem]:
    for status in scalars_of(rule.get("exit_status")):
        number = whole_number(status)
        if _is_no_number(status) and status.value != "*":
            yield status, f"the exit status '{status.value}' is no number"
    limit = rule.get("limit")
    number = whole_number(limit)
    if limit is not None and number is not None and not 0 <= number <= 10:
        yield limit, f"a step is retried at most 10 times, never {number}"
    for reason in scalars_of(rule.get("signal_reason")):
        if reason.value not in _REASONS and "$" not in reason.value:
            yield reason, f"'{reason.value}' is no signal reason of the agent"


def _unused_statuses(pipeline: PipelineFile) -> Iterator[Violation]:
    """Exit statuses of retries that no agent of Unix reports. Buildkite accepts them, so they break nothing."""
    for step in pipeline.commands:
        retry = mapping_of(step.node.get("retry"))
        for rule in items_of(retry.get("automatic")) if retry else ():
            statuses = rule.get("exit_status") if isinstance(rule, MappingNode) else None
            for status in scalars_of(statuses):
                number = whole_number(status)
                if number is not None and not -1 <= number <= 255:
                    said = f"an exit status is from -1 to 255, never {number}"
                    yield pipeline.violation(RULE, status, said, severity=Severity.WARNING)


def _workflow(pipeline: PipelineFile) -> Iterator[Problem]:
    for job in pipeline.jobs:
        limit = job.node.get("timeout-minutes")
        if limit is not None and _is_no_decimal(limit):
            yield limit, f"the time limit '{text_of(limit)}' is no number of minutes"
        if job.node.get("runs-on", "uses") is None:
            yield job.key, f"the job '{job.id}' has no `runs-on`"
    for step in pipeline.steps:
        yield from _github_step(step)


def _is_no_decimal(node: Node) -> bool:
    text = text_of(node) or ""
    return _is_no_number(node) and not text.replace(".", "", 1).isdigit()


def _github_step(step: PipelineStep) -> Iterator[Problem]:
    limit = step.node.get("timeout-minutes")
    if limit is not None and _is_no_decimal(limit):
        yield limit, f"the time limit '{text_of(limit)}' is no number of minutes"
    run, uses = step.node.fields.get("run"), step.node.fields.get("uses")
    if run is not None and uses is not None:
        yield uses.key, "a step has `run` or `uses`, not both"
    elif step.node.fields and step.node.get(*_WORK) is None:
        first: ScalarNode = next(iter(step.node.fields.values())).key
        yield first, "a step needs `run` or `uses`"
