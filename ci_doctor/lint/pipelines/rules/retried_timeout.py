# SPDX-License-Identifier: Apache-2.0
"""Pure. A retry that also retries a step that ran out of time."""

from collections.abc import Iterator
from typing import Final

from ci_doctor.lint.lint_rule import LintRule
from ci_doctor.lint.pipelines.examples import buildkite
from ci_doctor.lint.pipelines.pipeline_context import PipelineContext
from ci_doctor.lint.pipelines.pipeline_file import PipelineFile, PipelineStep
from ci_doctor.lint.pipelines.reading.yaml_nodes import text_of
from ci_doctor.lint.pipelines.retry_rules import StepRetry, retry_rules
from ci_doctor.lint.violation import Violation
from ci_doctor.model.finding import Severity
from ci_doctor.model.rule import Rule

RULE: Final = LintRule(
    rule=Rule(
        id="pipeline/retried-timeout",
        severity=Severity.WARNING,
        meaning="A retry without `signal_reason` also matches a step that ran out of time. A hang then holds its agent again, for the whole time limit, as often as the rule allows.",
        remedy="Add `signal_reason: none` to the rule, or `- {signal_reason: cancel, limit: 0}` as the first one.",
    ),
    bad=(
        buildkite(
            """
            steps:
              - command: make
                timeout_in_minutes: 60
                retry:
                  automatic:
                    - {exit_status: -1, limit: 1}
                    - {exit_status: "*", limit: 3}
            """
        ),
        buildkite(
            "steps:\n  - command: make\n    timeout_in_minutes: 60\n    retry: {automatic: true}\n"
        ),
        buildkite(
            "steps:\n  - command: make\n    timeout_in_minutes: 60\n    retry: {automatic: [{limit: 2}]}\n"
        ),
        buildkite(
            "steps:\n  - command: make\n    timeout_in_minutes: 60\n    retry: {automatic: [{exit_status: -1}]}\n"
        ),
        buildkite(
            "steps:\n  - command: make\n    timeout_in_minutes: 60\n    retry: {automatic: [{exit_status: [75, 255]}]}\n"
        ),
    ),
    good=(
        buildkite(
            """
            steps:
              - command: make
                timeout_in_minutes: 60
                retry:
                  automatic:
                    - {exit_status: -1, signal_reason: none, limit: 1}
                    - {exit_status: "*", signal_reason: none, limit: 3}
            """
        ),
        buildkite(
            """
            steps:
              - command: make
                timeout_in_minutes: 60
                retry:
                  automatic:
                    - {signal_reason: cancel, limit: 0}
                    - {exit_status: "*", limit: 3}
            """
        ),
        # Nothing ends this step for its time.
        buildkite("steps:\n  - command: make\n    retry: {automatic: true}\n"),
        buildkite(
            "steps:\n  - command: make\n    timeout_in_minutes: 60\n    retry: {automatic: {exit_status: 75}}\n"
        ),
    ),
)


def check(pipeline: PipelineFile, _context: PipelineContext) -> Iterator[Violation]:
    """The first rule of each step that a time-out matches."""
    visited: set[int] = set()
    for step in pipeline.commands:
        minutes = text_of(step.node.get("timeout_in_minutes"))
        if minutes is None:
            continue
        for rule in retry_rules(step.node):
            if rule.reason == "cancel" and rule.limit == 0:
                break
            if _matches_timeout(rule) and id(rule.place) not in visited:
                visited.add(id(rule.place))
                yield _violation(pipeline, step, rule, minutes)
                break


def _matches_timeout(rule: StepRetry) -> bool:
    if rule.limit == 0 or rule.reason not in (None, "*", "cancel"):
        return False
    return rule.any_status or -1 in rule.statuses or 255 in rule.statuses


def _violation(
    pipeline: PipelineFile, step: PipelineStep, rule: StepRetry, minutes: str
) -> Violation:
    limit = 2 if rule.limit is None else rule.limit
    times = "once" if limit == 1 else f"{limit} times"
    return pipeline.violation(
        RULE,
        rule.place,
        f"{step.name} is started again, up to {times}, after it ran out of its {minutes} minutes",
        # A narrow rule is aimed at lost agents, and retries a time-out beside that.
        severity=None if rule.any_status else Severity.NOTE,
    )
