# SPDX-License-Identifier: Apache-2.0
"""Pure. A file of CI that is no YAML: the upload or the workflow fails before its first step."""

from collections.abc import Iterator
from typing import Final

from ci_doctor.lint.excerpt import excerpt_of
from ci_doctor.lint.lint_rule import LintRule
from ci_doctor.lint.pipelines.examples import buildkite, job_steps
from ci_doctor.lint.pipelines.pipeline_file import PipelineFile
from ci_doctor.lint.pipelines.reading.compose import YamlProblem
from ci_doctor.lint.violation import Place, Violation
from ci_doctor.model.finding import Severity
from ci_doctor.model.rule import Rule

RULE: Final = LintRule(
    rule=Rule(
        id="pipeline/unparsable-yaml",
        severity=Severity.ERROR,
        meaning="The file is no YAML, so no step of it can run.",
        remedy="Mend the line, or the quotes and brackets before it.",
    ),
    bad=(
        buildkite("steps:\n\t- command: make\n"),
        buildkite("steps:\n  - label: 'tests\n    command: make\n"),
        buildkite("steps:\n  - command: make\n   label: tests\n"),
        buildkite("steps:\n  - command: echo a: b\n"),
        buildkite("steps:\n  - <<: *common\n    command: make\n"),
    ),
    good=(
        buildkite("steps:\n  - command: make\n"),
        buildkite('steps:\n  - command: "echo a: b"\n'),
        buildkite("common: &common {env: {A: '1'}}\nsteps:\n  - <<: *common\n    command: make\n"),
        # The source of a template engine is YAML only once it is rendered.
        buildkite("steps:\n{% for each in steps %}\n  - command: {{ each }}\n{% endfor %}\n"),
        job_steps("- run: printf 'a\\tb'\n"),
    ),
)


def check(pipeline: PipelineFile, problem: YamlProblem) -> Iterator[Violation]:
    """The place at which the parser stopped."""
    line = min(problem.line, len(pipeline.lines))
    yield Violation(
        rule=RULE,
        place=Place(file=pipeline.file, line=line, end_line=line),
        summary=f"the file is no YAML: {problem.reason}",
        excerpt=excerpt_of(pipeline.lines[line - 1]),
    )
