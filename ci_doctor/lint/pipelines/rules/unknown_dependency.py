# SPDX-License-Identifier: Apache-2.0
"""Pure. `depends_on` and `needs` that name a step or job which does not exist."""

import re
from collections.abc import Iterator
from typing import Final

from ci_doctor.lint.lint_rule import LintRule
from ci_doctor.lint.pipelines.examples import buildkite, whole_workflow
from ci_doctor.lint.pipelines.pipeline_context import PipelineContext
from ci_doctor.lint.pipelines.pipeline_file import FileKind, PipelineFile
from ci_doctor.lint.pipelines.reading.yaml_nodes import (
    MappingNode,
    Node,
    ScalarNode,
    SequenceNode,
    scalars_of,
    text_of,
)
from ci_doctor.lint.pipelines.step_keys import distance
from ci_doctor.lint.violation import Violation
from ci_doctor.model.finding import Severity
from ci_doctor.model.rule import Rule

RULE: Final = LintRule(
    rule=Rule(
        id="pipeline/unknown-dependency",
        severity=Severity.ERROR,
        meaning="A step waits for a step that does not exist. GitHub refuses such a workflow; Buildkite fails the step, or never starts it.",
        remedy="Name the key of a step (`key:`) or the id of a job, as it stands there.",
    ),
    bad=(
        buildkite(
            """
            steps:
              - {key: image-build, command: make}
              - {command: pytest tests, depends_on: image-buid}
            """
        ),
        buildkite(
            """
            steps:
              - {key: image-build, command: make}
              - {command: pytest tests, depends_on: [image-build, image_build]}
            """
        ),
        buildkite(
            """
            steps:
              - {key: image-build, command: make}
              - {command: pytest tests, depends_on: [{step: image-builds}]}
            """
        ),
        whole_workflow(
            """
            on: push
            jobs:
              build: {runs-on: x, steps: [{run: make}]}
              test: {needs: biuld, runs-on: x, steps: [{run: make}]}
            """
        ),
        whole_workflow(
            """
            on: push
            jobs:
              test: {needs: [build], runs-on: x, steps: [{run: make}]}
            """
        ),
    ),
    good=(
        buildkite(
            """
            steps:
              - {key: image-build, command: make}
              - {command: pytest tests, depends_on: image-build}
              - {command: pytest tests, depends_on: [{step: image-build, allow_failure: true}]}
              - {command: pytest tests, depends_on: ~}
            """
        ),
        # Another file of the same build may have this step.
        buildkite("steps:\n  - {command: pytest tests, depends_on: image-build}\n"),
        buildkite(
            "steps:\n  - {key: 'build-${ARCH}', command: make}\n  - {command: pytest, depends_on: build-x86}\n"
        ),
        whole_workflow(
            """
            on: push
            jobs:
              build: {runs-on: x, steps: [{run: make}]}
              test: {needs: [build], runs-on: x, steps: [{run: make}]}
            """
        ),
    ),
)

# A name is compared with all keys, and takes about 10 microseconds for each.
_MOST_COMPARED = 20_000


def check(pipeline: PipelineFile, context: PipelineContext) -> Iterator[Violation]:
    """Names without a step: all of them in a workflow, misspelt ones in a pipeline."""
    if pipeline.kind is FileKind.WORKFLOW:
        yield from _workflow(pipeline)
    elif pipeline.kind in (FileKind.BUILDKITE, FileKind.OWN_STEPS):
        yield from _pipeline(pipeline, context)


def _workflow(pipeline: PipelineFile) -> Iterator[Violation]:
    known = {job.id for job in pipeline.jobs}
    compared = 0
    for job in pipeline.jobs:
        for name in scalars_of(job.node.get("needs")):
            if name.value not in known and "${{" not in name.value:
                compared += len(known)
                nearest = _nearest(name.value, known) if compared <= _MOST_COMPARED else None
                yield pipeline.violation(
                    RULE,
                    name,
                    f"the job '{job.id}' needs '{name.value}', and no job has this id",
                    remedy=f"Write `{nearest}`." if nearest else None,
                )


def _keys(pipeline: PipelineFile) -> Iterator[str]:
    """The names by which other steps may call the steps of a pipeline."""
    for step in pipeline.steps:
        for name in ("key", "id", "identifier"):
            key = step.node.get(name)
            if isinstance(key, ScalarNode):
                yield key.value


def _pipeline(pipeline: PipelineFile, context: PipelineContext) -> Iterator[Violation]:
    """A build may consist of several uploads: only a name close to one that is there is certain."""
    known = set(_keys(pipeline))
    if not known:
        return
    visited: set[int] = set()
    compared = 0
    for step in pipeline.steps:
        for name in dependencies(step.node.get("depends_on")):
            if name.value in known or id(name) in visited or "{" in name.value or "$" in name.value:
                continue
            visited.add(id(name))
            compared += len(known)
            nearest = _nearest(name.value, known) if compared <= _MOST_COMPARED else None
            if nearest and not _has_key(name.value, context):
                yield pipeline.violation(
                    RULE,
                    name,
                    f"{step.name} depends on '{name.value}', and no step has this key",
                    remedy=f"Write `{nearest}`, the key of a step of this file.",
                )


def dependencies(node: Node | None) -> Iterator[ScalarNode]:
    """The names in a `depends_on`."""
    listed = node.items if isinstance(node, SequenceNode) else [node]
    for each in listed:
        if isinstance(each, MappingNode):
            step = each.get("step")
            if isinstance(step, ScalarNode):
                yield step
        elif isinstance(each, ScalarNode) and text_of(each) not in ("", "~", "null"):
            yield each


def _nearest(name: str, known: set[str]) -> str | None:
    """A key spelt alike: but for `-`, `_` and case, or one letter that is no digit."""
    for key in sorted(known):
        if _plain(key) == _plain(name) or (len(name) >= 5 and _is_misspelt(name, key)):
            return key
    return None


def _is_misspelt(name: str, key: str) -> bool:
    """`test-1` and `test-2`, `build-arm` and `build-amd` are different names on purpose."""
    if key.rstrip("s") == name.rstrip("s"):
        return True
    return name[-1] == key[-1] and distance(name, key, 1) <= 1 and _digits(key) == _digits(name)


def _plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")


def _digits(name: str) -> list[str]:
    return re.findall(r"\d+", name)


def _has_key(name: str, context: PipelineContext) -> bool:
    """Whether another pipeline of the repository has a step with this key."""
    key = re.compile(
        rf"(?:key|id|identifier):[ \t]*[\"']?{re.escape(name)}[\"']?[ \t]*(?:[,}}#]|$)",
        re.MULTILINE,
    )
    return any(name in text and key.search(text) for text in context.others.values())
