# SPDX-License-Identifier: Apache-2.0
"""Pure. Reads one YAML file of CI: what its rules report, what they could not read, and the scripts in it."""

import re
from collections.abc import Callable, Iterator
from typing import Final

from ci_doctor.lint.lint_rule import LintRule, Unreadable, Violation
from ci_doctor.lint.pipelines import (
    key_rules,
    pin_rules,
    retry_rules,
)
from ci_doctor.lint.pipelines.pipeline_file import (
    FileKind,
    PipelineContext,
    PipelineFile,
    PipelineStep,
    jobs_of,
    kind_of,
    root_of,
    scripts_of,
    steps_of,
)
from ci_doctor.lint.source_files import CiRole, FileReading
from ci_doctor.syntax.yaml import YamlProblem, compose, with_plain_breaks

_CHECKED: Final[
    tuple[tuple[LintRule, Callable[[PipelineFile, PipelineContext], Iterator[Violation]]], ...]
] = (
    *key_rules.RULES,
    *retry_rules.RULES,
    *pin_rules.RULES,
)
# `check_pipeline` itself runs the first one, which needs what the parser said.
RULES: Final = (key_rules.UNPARSABLE_YAML, *(rule for rule, _ in _CHECKED))

# A template engine's statement, or an expression where YAML has a value of its own.
_TEMPLATE = re.compile(r"\{%|\{#|^[ \t]*\{\{|(?<!\$)\{\{-|:[ \t]+\{\{", re.MULTILINE)


def check_pipeline(file: str, text: str, context: PipelineContext) -> FileReading:
    """Checks a file for which `is_pipeline` is true; `file` is relative to the repository.

    Raises nothing, whatever the text.
    """
    text = with_plain_breaks(text)
    composition = compose(text)
    templated = _is_template(text, composition.problem)
    documents = composition.documents
    kind = kind_of(file, documents)
    root = root_of(documents)
    jobs = jobs_of(root) if kind is FileKind.WORKFLOW else ()
    steps = steps_of(kind, root, jobs)
    job_steps: dict[str, list[PipelineStep]] = {}
    for step in steps:
        if step.job is not None:
            job_steps.setdefault(step.job.id, []).append(step)
    pipeline = PipelineFile(
        file=file,
        text=text,
        lines=text.split("\n"),
        kind=kind,
        documents=documents,
        root=root,
        jobs=jobs,
        steps=steps,
        job_steps=job_steps,
    )
    violations: list[Violation] = []
    problem = composition.problem
    is_reported = problem is not None and not problem.ours and not templated
    if problem is not None and is_reported:
        violations += key_rules.unparsable_yaml(pipeline, problem)
    for _, check in _CHECKED:
        violations += check(pipeline, context)
    violations.sort(key=lambda each: (each.place.line, each.rule.id))
    return FileReading(
        role=CiRole.PIPELINE,
        violations=tuple(violations),
        unreadable=_unreadable(pipeline, problem, templated=templated, is_reported=is_reported),
        scripts=scripts_of(pipeline),
    )


def _is_template(text: str, problem: YamlProblem | None) -> bool:
    """Statements of a template engine, or an expression of one where the parser stopped."""
    if _TEMPLATE.search(text) is not None:
        return True
    if problem is None:
        return False
    near = text.split("\n", problem.line + 1)[max(problem.line - 2, 0) : problem.line + 1]
    return any("{{" in line.replace("${{", "") for line in near)


def _unreadable(
    pipeline: PipelineFile, problem: YamlProblem | None, *, templated: bool, is_reported: bool
) -> tuple[Unreadable, ...]:
    if problem is None:
        return ()
    line = min(problem.line, len(pipeline.lines))
    reason = f"the parser stopped here: {problem.reason}"
    if templated:
        reason = f"a template, which is YAML only when it has been rendered ({problem.reason})"
    is_partial = bool(pipeline.documents)
    return (
        Unreadable(
            file=pipeline.file,
            line=line,
            reason=reason,
            is_partial=is_partial,
            is_reported=is_reported,
        ),
    )


def unparsable_data(file: str, text: str) -> tuple[Unreadable, ...]:
    """Where a YAML file that is no pipeline cannot be parsed; a template is YAML once it is rendered."""
    text = with_plain_breaks(text)
    problem = compose(text).problem
    if problem is None or _is_template(text, problem):
        return ()
    reason = f"the parser stopped here: {problem.reason}"
    return (Unreadable(file=file, line=min(problem.line, text.count("\n") + 1), reason=reason),)
