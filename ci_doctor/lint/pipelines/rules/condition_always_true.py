# SPDX-License-Identifier: Apache-2.0
"""Pure. A condition of GitHub with text around `${{ }}`: the whole is a text, and so true."""

from collections.abc import Iterator
from typing import Final

from ci_doctor.lint.lint_rule import LintRule
from ci_doctor.lint.pipelines.examples import job_steps, workflow
from ci_doctor.lint.pipelines.pipeline_context import PipelineContext
from ci_doctor.lint.pipelines.pipeline_file import FileKind, PipelineFile
from ci_doctor.lint.pipelines.rules.unreadable_condition import conditions
from ci_doctor.lint.violation import Violation
from ci_doctor.model.finding import Severity
from ci_doctor.model.rule import Rule

RULE: Final = LintRule(
    rule=Rule(
        id="pipeline/condition-always-true",
        severity=Severity.ERROR,
        meaning="A condition has text around `${{ }}`. GitHub then makes a text of all of it, and a text that is not empty is true.",
        remedy="Write the whole condition inside one `${{ }}`, or without it.",
    ),
    bad=(
        job_steps("- run: make\n  if: ${{ github.ref == 'a' }} && ${{ github.actor == 'b' }}\n"),
        job_steps("- run: make\n  if: ${{ github.ref }} == 'refs/heads/main'\n"),
        job_steps('- run: make\n  if: "!${{ inputs.skip }}"\n'),
        job_steps("- run: make\n  if: |\n    ${{ inputs.skip == 'no' }}\n"),
        job_steps("- run: make\n  if: always() && ${{ inputs.run }}\n"),
        workflow(
            "runs-on: ubuntu-24.04\nif: ${{ inputs.a }} || ${{ inputs.b }}\nsteps:\n- run: make\n"
        ),
    ),
    good=(
        job_steps("- run: make\n  if: ${{ github.ref == 'a' && github.actor == 'b' }}\n"),
        job_steps("- run: make\n  if: github.ref == 'refs/heads/main'\n"),
        job_steps("- run: make\n  if: |\n    inputs.skip == 'no'\n"),
        job_steps("- run: make\n  if: |-\n    ${{ inputs.skip == 'no' }}\n"),
        job_steps("- run: make\n  if: >-\n    ${{ inputs.skip == 'no'\n    && inputs.run }}\n"),
    ),
)


def check(pipeline: PipelineFile, _context: PipelineContext) -> Iterator[Violation]:
    """Conditions of jobs and steps of which `${{ }}` is only a part."""
    if pipeline.kind not in (FileKind.WORKFLOW, FileKind.ACTION):
        return
    nodes = [*(job.node for job in pipeline.jobs), *(step.node for step in pipeline.steps)]
    for condition in conditions(nodes):
        text = condition.value
        if "${{" not in text:
            continue
        # The last newline of a block scalar is text around the expression, too.
        whole = text.startswith("${{") and text.find("}}") == len(text) - 2
        if not whole and text.find("}}") > 0:
            stripped = text.strip()
            block = stripped.startswith("${{") and stripped.find("}}") == len(stripped) - 2
            reason = (
                "the line break of the block is text around it"
                if block
                else "text stands around `${{ }}`"
            )
            remedy = (
                f"Write `if: {condition.style}-`."
                if block and condition.style in ("|", ">")
                else None
            )
            yield pipeline.violation(
                RULE, condition, f"the condition is always true: {reason}", remedy=remedy
            )
