# SPDX-License-Identifier: Apache-2.0
"""Pure. Rules about versions of plugins and images that may change under a step."""

import re
from collections.abc import Iterator
from typing import Final

from ci_doctor.lint.lint_rule import LintRule, Violation, word_set
from ci_doctor.lint.pipelines.pipeline_file import (
    FileKind,
    PipelineContext,
    PipelineFile,
    buildkite,
    job_steps,
    whole_workflow,
    workflow,
)
from ci_doctor.model.outcome import Rule, Severity
from ci_doctor.syntax.yaml import MappingNode, Node, ScalarNode, SequenceNode, walk

UNPINNED_PLUGIN: Final = LintRule(
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
        buildkite("steps:\n  - command: make\n    plugins: [buildkite_plugins/cache/: {a: b}]\n"),
        buildkite("steps:\n  - command: make\n    plugins: {docker-login: {username: me}}\n"),
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
_OF_A_PLUGIN = (
    "plugin.yml",
    "plugin.yaml",
    "hooks/command",
    "hooks/pre-command",
    "hooks/environment",
)
# The name of an owner on GitHub has no underscore.
_NO_OWNER = re.compile(r"\w*_\w*/", re.ASCII)
# Settings of the agent's stack, not plugins that are cloned.
_BUILT_IN = frozenset({"kubernetes"})


def unpinned_plugin(pipeline: PipelineFile, context: PipelineContext) -> Iterator[Violation]:
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
                yield from _plugin(pipeline, name, context)


def plugin_names(node: Node | None) -> Iterator[ScalarNode]:
    """The sources of the plugins of a step, as they stand."""
    listed = node.items if isinstance(node, SequenceNode) else [node]
    for each in listed:
        if isinstance(each, ScalarNode):
            yield each
        elif isinstance(each, MappingNode):
            yield from (field.key for field in each.fields.values())


def _plugin(
    pipeline: PipelineFile, name: ScalarNode, context: PipelineContext
) -> Iterator[Violation]:
    source, _, version = name.value.partition("#")
    source = source.rstrip("/")
    if not source or source[0] in "./~" or source in _BUILT_IN or "${" in source or "{{" in source:
        return
    is_there = any(context.read(f"{source}/{file}") is not None for file in _OF_A_PLUGIN)
    if not version and (is_there or _NO_OWNER.match(source)):
        what = "is a folder of this repository" if is_there else "seems to be a folder"
        yield pipeline.violation(
            UNPINNED_PLUGIN,
            name,
            f"'{source}' {what}, and without `./` it names a repository on GitHub",
            remedy=f"Write `./{source}`.",
            severity=Severity.ERROR,
        )
    elif not version and "$" not in name.value:
        yield pipeline.violation(
            UNPINNED_PLUGIN,
            name,
            f"the plugin '{source}' has no version, so its default branch runs",
        )
    elif version.lower() in _BRANCHES:
        yield pipeline.violation(
            UNPINNED_PLUGIN, name, f"the plugin '{source}' runs from '{version}', which moves"
        )


def _action(
    pipeline: PipelineFile, places: list[ScalarNode], context: PipelineContext
) -> Iterator[Violation]:
    uses, *others = places
    name, _, version = uses.value.partition("@")
    if name.startswith((".", "docker://")) or "${{" in uses.value or "/" not in name:
        return
    # Without a version GitHub refuses the workflow aloud.
    if version.lower() not in _BRANCHES or _is_own(name, context):
        return
    summary = f"the action '{name}' runs from '{version}', which moves"
    if others:
        summary += f" (at {len(places)} places of this file)"
    yield pipeline.violation(UNPINNED_PLUGIN, uses, summary, related=tuple(others))


def _is_own(name: str, context: PipelineContext) -> bool:
    """Whether the action is a file of this repository, whose main branch the author holds."""
    path = "/".join(name.split("/")[2:])
    files = (path, f"{path}/action.yml", f"{path}/action.yaml") if path else ()
    return any(context.read(file) is not None for file in files)


# Images whose tag moves.

UNPINNED_IMAGE: Final = LintRule(
    rule=Rule(
        id="pipeline/unpinned-image",
        severity=Severity.WARNING,
        meaning="A step runs in an image whose tag moves, so a green and a red run may differ in everything that the image holds.",
        remedy="Name a version, or better the digest: `image: vllm/vllm-openai@sha256:…`.",
    ),
    bad=(
        buildkite(
            "steps:\n  - command: make\n    plugins: [{docker#v5.13.0: {image: vllm/vllm-openai:latest}}]\n"
        ),
        buildkite("steps:\n  - command: make\n    plugins: [{docker#v5.13.0: {image: ubuntu}}]\n"),
        buildkite("image: registry.example.org:5000/team/ci\nsteps:\n  - command: make\n"),
        buildkite(
            "steps:\n  - command: make\n    plugins: [{kubernetes: {podSpec: {containers: [{image: 'nvcr.io/nvidia/pytorch:latest'}]}}}]\n"
        ),
        workflow(
            "runs-on: ubuntu-24.04\ncontainer: {image: pytorch/pytorch:latest}\nsteps:\n- run: make\n"
        ),
        workflow("runs-on: ubuntu-24.04\ncontainer: rocm/pytorch\nsteps:\n- run: make\n"),
        job_steps("- uses: docker://alpine:latest\n"),
    ),
    good=(
        buildkite(
            "steps:\n  - command: make\n    plugins: [{docker#v5.13.0: {image: 'vllm/vllm-openai:v0.19.0'}}]\n"
        ),
        buildkite(f"image: vllm/vllm-openai@sha256:{'0' * 64}\nsteps:\n  - command: make\n"),
        buildkite("image: $REGISTRY/ci\nsteps:\n  - command: make\n"),
        buildkite("image: '${IMAGE:-x}'\nsteps:\n  - command: make\n"),
        workflow("runs-on: ubuntu-24.04\ncontainer: ${{ matrix.image }}\nsteps:\n- run: make\n"),
        job_steps("- uses: docker://alpine:3.20\n"),
        # A key that merely has this name.
        buildkite("steps:\n  - command: make\n    label: image\n    env: {image: fast}\n"),
    ),
)

_IMAGE = re.compile(
    r"(?:(?P<host>[\w-]+(?:\.[\w-]+)+(?::\d+)?|localhost(?::\d+)?)/)?"
    r"(?P<path>[a-z0-9]+(?:[._/-]+[a-z0-9]+)*)(?::(?P<tag>[\w][\w.-]{0,127}))?(?P<digest>@sha256:[0-9a-f]{64})?"
)
# A name without a namespace is else often an image that the job has built itself.
_OFFICIAL = word_set(
    "ubuntu debian alpine python node golang rust busybox redis postgres nginx docker"
)
# By convention an image that the machine itself has built.
_BUILT_HERE = ("local/", "localhost/")
_MOVING = frozenset({"latest", "main", "master", "nightly", "dev", "edge", "stable", "rolling"})


def unpinned_image(pipeline: PipelineFile, _context: PipelineContext) -> Iterator[Violation]:
    """Values of `image` and `container`, and actions that are images; each image once."""
    places: dict[tuple[str, bool], list[ScalarNode]] = {}
    for document in pipeline.documents:
        for node in walk(document):
            if isinstance(node, MappingNode):
                for value, certain in _images(node, pipeline):
                    places.setdefault((_name(value), certain), []).append(value)
    for (name, certain), nodes in places.items():
        match = _IMAGE.fullmatch(name)
        if match is not None and not match["digest"]:
            yield from _judged(pipeline, match, nodes, certain=certain)


def _images(node: MappingNode, pipeline: PipelineFile) -> Iterator[tuple[ScalarNode, bool]]:
    """Values of a mapping that name images; whether a name without a tag is certainly one."""
    for key in ("image", "container", "uses"):
        field = node.fields.get(key)
        if field is None or field.merged or not isinstance(field.value, ScalarNode):
            continue
        if key != "uses" or field.value.value.startswith("docker://"):
            # Agents of a cloud are asked for by the family of their machine's image.
            machine = node.get("queue", "provider", "machineType", "machine_type") is not None
            data = pipeline.kind is FileKind.DATA or (
                key == "container" and pipeline.kind is not FileKind.WORKFLOW
            )
            yield field.value, not (machine or data)


def _name(value: ScalarNode) -> str:
    written = value.value.strip()
    return written.removeprefix("docker://")


def _judged(
    pipeline: PipelineFile, match: re.Match[str], nodes: list[ScalarNode], *, certain: bool
) -> Iterator[Violation]:
    name, tag = match.group(), match["tag"]
    known = match["host"] is not None or match["path"] in _OFFICIAL
    if match["path"].startswith(_BUILT_HERE):
        return
    if tag and (tag in _MOVING or tag.startswith("latest-")) and (known or "/" in match["path"]):
        summary = f"the tag of the image '{name}' moves"
    elif tag is None and (match["host"] or (certain and (known or "/" in match["path"]))):
        summary = f"the image '{name}' has no tag, which means `latest`"
    else:
        return
    if len(nodes) > 1:
        summary += f" (at {len(nodes)} places of this file)"
    yield pipeline.violation(UNPINNED_IMAGE, nodes[0], summary, related=tuple(nodes[1:]))


RULES: Final = (
    (UNPINNED_PLUGIN, unpinned_plugin),
    (UNPINNED_IMAGE, unpinned_image),
)
