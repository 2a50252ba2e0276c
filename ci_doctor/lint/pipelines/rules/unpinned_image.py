# SPDX-License-Identifier: Apache-2.0
"""Pure. Images whose tag moves, and images of a namespace that belongs to no known project."""

import re
from collections.abc import Iterator
from typing import Final

from ci_doctor.lint.lint_rule import LintRule
from ci_doctor.lint.pipelines.examples import buildkite, job_steps, workflow
from ci_doctor.lint.pipelines.pipeline_context import PipelineContext
from ci_doctor.lint.pipelines.pipeline_file import FileKind, PipelineFile
from ci_doctor.lint.pipelines.reading.yaml_nodes import MappingNode, ScalarNode, walk
from ci_doctor.lint.pipelines.word_sets import words
from ci_doctor.lint.violation import Violation
from ci_doctor.model.finding import Severity
from ci_doctor.model.rule import Rule

RULE: Final = LintRule(
    rule=Rule(
        id="pipeline/unpinned-image",
        severity=Severity.WARNING,
        meaning="A step runs in an image whose tag moves, so a green and a red run may differ in everything that the image holds. An image of a personal namespace can also be gone tomorrow.",
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
        buildkite(
            "steps:\n  - command: make\n    plugins: [{docker#v5.13.0: {image: 'somebody/kimi-rocm:dmabuf'}}]\n"
        ),
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
_OFFICIAL = words(
    "ubuntu debian alpine python node golang rust busybox redis postgres nginx docker"
)
# By convention an image that the machine itself has built.
_BUILT_HERE = ("local/", "localhost/")
_MOVING = frozenset({"latest", "main", "master", "nightly", "dev", "edge", "stable", "rolling"})
# Projects and vendors on Docker Hub whose images CI of LLM serving uses.
_KNOWN: Final = words(
    "amd aquasec axolotlai bitnami buildkite catthehacker cimg curlimages deepspeed docker dockerhub "
    "envoyproxy gcr grafana habana haproxy hashicorp huggingface infiniflow intel jupyter kserve "
    "kvcacheai library lightllm lmcache lmsysorg mambaorg mcr minio mlcommons modular moby mongo "
    "mysql nginx nvidia nvidiadynamo ollama openmmlab openvino opensearchproject otel pingcap prom "
    "pytorch python qdrant rayproject redis rocm sglang snakemake tensorflow tonistiigi triton "
    "ubuntu verlai vllm vllmascend vllmproject vllmopenaiopensource xprobe kindest rancher elastic"
)


def check(pipeline: PipelineFile, _context: PipelineContext) -> Iterator[Violation]:
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
    severity = None
    if match["path"].startswith(_BUILT_HERE):
        return
    if tag and _moves(tag) and (known or "/" in match["path"]):
        summary = f"the tag of the image '{name}' moves"
    elif tag is None and (match["host"] or (certain and (known or "/" in match["path"]))):
        summary = f"the image '{name}' has no tag, which means `latest`"
    elif tag is not None and _is_private(match):
        namespace = match["path"].split("/")[0]
        summary = f"the image '{name}' comes from the namespace '{namespace}', which looks like a person's"
        severity = Severity.NOTE
    else:
        return
    if len(nodes) > 1:
        summary += f" (at {len(nodes)} places of this file)"
    yield pipeline.violation(RULE, nodes[0], summary, severity=severity, related=tuple(nodes[1:]))


def _moves(tag: str) -> bool:
    return tag in _MOVING or tag.startswith("latest-")


def _is_private(match: re.Match[str]) -> bool:
    """A namespace on Docker Hub that is nobody's we know, under a tag without a version."""
    parts = match["path"].split("/")
    if match["host"] or len(parts) != 2 or parts[0] in _KNOWN:
        return False
    return re.search(r"\d+\.\d+", match["tag"]) is None
