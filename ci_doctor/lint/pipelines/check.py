# SPDX-License-Identifier: Apache-2.0
"""Pure. Reads one YAML file of CI: what its rules report, what they could not read, and the scripts in it."""

import re

from msgspec import Struct

from ci_doctor.lint.pipelines import all_rules
from ci_doctor.lint.pipelines.kinds import is_pipeline, kind_of
from ci_doctor.lint.pipelines.pipeline_context import PipelineContext
from ci_doctor.lint.pipelines.pipeline_file import FileKind, PipelineFile, PipelineStep
from ci_doctor.lint.pipelines.reading.compose import (
    Composition,
    YamlProblem,
    compose,
    with_plain_breaks,
)
from ci_doctor.lint.pipelines.reading.steps import jobs_of, root_of, steps_of
from ci_doctor.lint.pipelines.rules import unparsable_yaml
from ci_doctor.lint.pipelines.scripts import scripts_of
from ci_doctor.lint.shell.shell_source import ShellSource
from ci_doctor.lint.unreadable import Unreadable
from ci_doctor.lint.violation import Violation

__all__ = ["PipelineContext", "PipelineReading", "check_pipeline", "is_pipeline"]

# A template engine's statement, or an expression where YAML has a value of its own.
_TEMPLATE = re.compile(r"\{%|\{#|^[ \t]*\{\{|(?<!\$)\{\{-|:[ \t]+\{\{", re.MULTILINE)


class PipelineReading(Struct, frozen=True, kw_only=True):
    """What one file gives: violations in the order of its lines, and the programs of its steps."""

    violations: tuple[Violation, ...] = ()
    unreadable: tuple[Unreadable, ...] = ()
    scripts: tuple[ShellSource, ...] = ()


def check_pipeline(file: str, text: str, context: PipelineContext) -> PipelineReading:
    """Checks a file for which `is_pipeline` is true; `file` is relative to the repository.

    Raises nothing, whatever the text.
    """
    text = with_plain_breaks(text)
    composition = compose(text)
    templated = _is_template(text, composition.problem)
    pipeline = _pipeline(file, text, composition)
    violations: list[Violation] = []
    if composition.problem is not None and not composition.problem.ours and not templated:
        violations += unparsable_yaml.check(pipeline, composition.problem)
    for check in all_rules.CHECKS:
        violations += check(pipeline, context)
    violations.sort(key=lambda each: (each.place.line, each.rule.id))
    return PipelineReading(
        violations=tuple(violations),
        unreadable=_unreadable(pipeline, composition.problem, templated=templated),
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


def _pipeline(file: str, text: str, composition: Composition) -> PipelineFile:
    documents = composition.documents
    kind = kind_of(file, documents)
    root = root_of(documents)
    jobs = jobs_of(root) if kind is FileKind.WORKFLOW else ()
    steps = steps_of(kind, root, jobs)
    job_steps: dict[str, list[PipelineStep]] = {}
    for step in steps:
        if step.job is not None:
            job_steps.setdefault(step.job.id, []).append(step)
    return PipelineFile(
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


def _unreadable(
    pipeline: PipelineFile, problem: YamlProblem | None, *, templated: bool
) -> tuple[Unreadable, ...]:
    if problem is None:
        return ()
    line = min(problem.line, len(pipeline.lines))
    reason = f"no rule has read it from here: {problem.reason}"
    if templated:
        reason = f"a template, which is YAML only when it has been rendered ({problem.reason})"
    is_partial = bool(pipeline.documents)
    return (Unreadable(file=pipeline.file, line=line, reason=reason, is_partial=is_partial),)
