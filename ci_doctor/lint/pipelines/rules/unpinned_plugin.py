# SPDX-License-Identifier: Apache-2.0
"""Pure. Plugins and actions without a version: what runs tomorrow is not what ran today."""

from collections.abc import Iterator
from typing import Final

from ci_doctor.lint.lint_rule import LintRule
from ci_doctor.lint.pipelines.examples import buildkite, job_steps, whole_workflow
from ci_doctor.lint.pipelines.pipeline_context import PipelineContext
from ci_doctor.lint.pipelines.pipeline_file import FileKind, PipelineFile
from ci_doctor.lint.pipelines.reading.yaml_nodes import (
    MappingNode,
    Node,
    ScalarNode,
    SequenceNode,
)
from ci_doctor.lint.violation import Violation
from ci_doctor.model.finding import Severity
from ci_doctor.model.rule import Rule

RULE: Final = LintRule(
    rule=Rule(
        id="pipeline/unpinned-plugin",
        severity=Severity.WARNING,
        meaning="A plugin or an action is taken from a branch, so the pipeline changes without a commit of its own.",
        remedy="Name a version tag, or better the full SHA of a commit: `docker#v5.13.0`, `actions/checkout@<sha> # v5`.",
    ),
    bad=(
        buildkite(
            "steps:\n  - command: make\n    plugins:\n      - docker: {image: python:3.12.4}\n"
        ),
        buildkite(
            "steps:\n  - command: make\n    plugins:\n      - docker#master: {image: python:3.12.4}\n"
        ),
        buildkite(
            "steps:\n  - command: make\n    plugins:\n      - ssh://git@github.com/org/x-buildkite-plugin.git: ~\n"
        ),
        buildkite("steps:\n  - command: make\n    plugins: [org/cache]\n"),
        buildkite("steps:\n  - command: make\n    plugins: {docker-login: {username: me}}\n"),
        job_steps("- uses: actions/checkout\n"),
        job_steps("- uses: org/tool@main\n"),
        whole_workflow(
            "on: push\njobs:\n  call:\n    uses: org/repo/.github/workflows/x.yml@master\n"
        ),
    ),
    good=(
        buildkite(
            "steps:\n  - command: make\n    plugins:\n      - docker#v5.13.0: {image: python:3.12.4}\n"
        ),
        buildkite("steps:\n  - command: make\n    plugins: [./.buildkite/plugins/cache]\n"),
        buildkite("steps:\n  - command: make\n    plugins: [{kubernetes: {podSpec: {}}}]\n"),
        job_steps("- uses: actions/checkout@v5\n"),
        job_steps("- uses: ./.github/actions/build\n"),
        job_steps("- uses: docker://alpine:3.20\n"),
    ),
)

_BRANCHES = frozenset({"main", "master", "head", "trunk", "develop", "dev", "latest"})
# Settings of the agent's stack, not plugins that are cloned.
_BUILT_IN = frozenset({"kubernetes"})


def check(pipeline: PipelineFile, context: PipelineContext) -> Iterator[Violation]:
    """Plugins of Buildkite's steps, `uses` of GitHub's; each action once."""
    actions: dict[str, list[ScalarNode]] = {}
    if pipeline.kind in (FileKind.WORKFLOW, FileKind.ACTION):
        for holder in (
            *(job.node for job in pipeline.jobs),
            *(step.node for step in pipeline.steps),
        ):
            uses = holder.get("uses")
            if isinstance(uses, ScalarNode):
                actions.setdefault(uses.value, []).append(uses)
        for places in actions.values():
            yield from _action(pipeline, places, context)
        return
    visited: set[int] = set()
    for step in pipeline.commands:
        for name in plugin_names(step.node.get("plugins")):
            if id(name) not in visited:
                visited.add(id(name))
                yield from _plugin(pipeline, name)


def plugin_names(node: Node | None) -> Iterator[ScalarNode]:
    """The sources of the plugins of a step, as they stand."""
    listed = node.items if isinstance(node, SequenceNode) else [node]
    for each in listed:
        if isinstance(each, ScalarNode):
            yield each
        elif isinstance(each, MappingNode):
            yield from (field.key for field in each.fields.values())


def _plugin(pipeline: PipelineFile, name: ScalarNode) -> Iterator[Violation]:
    source, _, version = name.value.partition("#")
    if not source or source[0] in "./~" or source in _BUILT_IN or "${" in source or "{{" in source:
        return
    if not version and "$" not in name.value:
        yield pipeline.violation(
            RULE, name, f"the plugin '{source}' has no version, so its default branch runs"
        )
    elif version.lower() in _BRANCHES:
        yield pipeline.violation(
            RULE, name, f"the plugin '{source}' runs from '{version}', which moves"
        )


def _action(
    pipeline: PipelineFile, places: list[ScalarNode], context: PipelineContext
) -> Iterator[Violation]:
    uses, *others = places
    name, _, version = uses.value.partition("@")
    if name.startswith((".", "docker://")) or "${{" in uses.value or "/" not in name:
        return
    severity = None
    if not version:
        summary = (
            f"the action '{name}' has no `@version`, without which GitHub refuses the workflow"
        )
        severity = Severity.ERROR
    elif version.lower() in _BRANCHES and not _is_own(name, context):
        summary = f"the action '{name}' runs from '{version}', which moves"
    else:
        return
    if others:
        summary += f" (at {len(places)} places of this file)"
    yield pipeline.violation(RULE, uses, summary, severity=severity, related=tuple(others))


def _is_own(name: str, context: PipelineContext) -> bool:
    """Whether the action is a file of this repository, whose main branch the author holds."""
    path = "/".join(name.split("/")[2:])
    files = (path, f"{path}/action.yml", f"{path}/action.yaml") if path else ()
    return any(context.matches(file) is True for file in files)
