# SPDX-License-Identifier: Apache-2.0
"""Pure. `exit_status: "*"` covers 1 to 255, and so not the -1 of an agent that was lost."""

from collections.abc import Iterator
from typing import Final

from ci_doctor.lint.lint_rule import LintRule
from ci_doctor.lint.pipelines.examples import buildkite
from ci_doctor.lint.pipelines.pipeline_context import PipelineContext
from ci_doctor.lint.pipelines.pipeline_file import PipelineFile
from ci_doctor.lint.pipelines.retry_rules import AGENT_REASONS, StepRetry, retry_rules
from ci_doctor.lint.violation import Violation
from ci_doctor.model.finding import Severity
from ci_doctor.model.rule import Rule

RULE: Final = LintRule(
    rule=Rule(
        id="pipeline/lost-agent-not-retried",
        severity=Severity.WARNING,
        meaning='A step is retried on `exit_status: "*"`, which matches 1 to 255. A lost agent has the status -1, so the one failure that a retry is best for is not retried.',
        remedy="Add a rule with `exit_status: -1`, and name the statuses of your own that another run helps.",
    ),
    bad=(
        buildkite(
            """
            steps:
              - command: make
                retry:
                  automatic:
                    - exit_status: "*"
                      limit: 2
            """
        ),
        buildkite(
            "steps:\n  - command: make\n    retry: {automatic: {exit_status: '*', limit: 1}}\n"
        ),
        buildkite(
            """
            steps:
              - command: make
                retry:
                  automatic:
                    - {exit_status: 75, limit: 2}
                    - {exit_status: "*", limit: 1}
            """
        ),
        buildkite(
            """
            retried: &retried
              automatic: [{exit_status: "*"}]
            steps:
              - command: make
                retry: *retried
            """
        ),
        buildkite(
            "steps:\n  - command: make\n    retry:\n      automatic:\n        - exit_status: '*'\n          signal: SIGKILL\n"
        ),
    ),
    good=(
        buildkite(
            """
            steps:
              - command: make
                retry:
                  automatic:
                    - {exit_status: -1, limit: 2}
                    - {exit_status: "*", limit: 1}
            """
        ),
        buildkite(
            "steps:\n  - command: make\n    retry: {automatic: [{exit_status: [-1, 255]}, {exit_status: '*'}]}\n"
        ),
        buildkite(
            "steps:\n  - command: make\n    retry: {automatic: {exit_status: '*', limit: 0}}\n"
        ),
        buildkite(
            "steps:\n  - command: make\n    retry: {automatic: {signal_reason: agent_stop}}\n"
        ),
        buildkite("steps:\n  - command: make\n    retry: {automatic: {exit_status: 75}}\n"),
    ),
)


def check(pipeline: PipelineFile, _context: PipelineContext) -> Iterator[Violation]:
    """The rule with `"*"`, if no rule of the step names what a lost agent leaves."""
    visited: set[int] = set()
    for step in pipeline.commands:
        rules = retry_rules(step.node)
        if not rules or any(_covers_lost_agent(rule) for rule in rules):
            continue
        for rule in rules:
            # `signal_reason: none` asks for plain failures, on purpose.
            if (
                rule.named
                and rule.limit != 0
                and rule.reason in (None, "*")
                and id(rule.place) not in visited
            ):
                visited.add(id(rule.place))
                yield pipeline.violation(
                    RULE,
                    rule.place,
                    f"{step.name} is retried on any status from 1 to 255, and not when its agent is lost (-1)",
                    remedy="Add `- {exit_status: -1, signal_reason: none, limit: 2}` before this rule.",
                )
                break


def _covers_lost_agent(rule: StepRetry) -> bool:
    return -1 in rule.statuses or rule.reason in AGENT_REASONS
