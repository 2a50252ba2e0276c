# SPDX-License-Identifier: Apache-2.0
"""Pure. The jobs and steps of a pipeline, a workflow or an action, from its nodes."""

from collections.abc import Iterator

from ci_doctor.lint.pipelines.pipeline_file import FileKind, PipelineJob, PipelineStep, StepKind
from ci_doctor.lint.pipelines.reading.yaml_nodes import (
    Field,
    MappingNode,
    Node,
    ScalarNode,
    SequenceNode,
    items_of,
    mapping_of,
    text_of,
)

_KIND_KEYS = (
    ("group", StepKind.GROUP),
    ("trigger", StepKind.TRIGGER),
    ("block", StepKind.BLOCK),
    ("input", StepKind.INPUT),
    ("wait", StepKind.WAIT),
    ("waiter", StepKind.WAIT),
)
_NAMED_KINDS = {
    "block": StepKind.BLOCK,
    "manual": StepKind.BLOCK,
    "input": StepKind.INPUT,
    "wait": StepKind.WAIT,
    "waiter": StepKind.WAIT,
    "trigger": StepKind.TRIGGER,
}
# A group may hold no group; what a file nests all the same is read this far.
_DEEPEST_GROUP = 3


def root_of(documents: tuple[Node, ...]) -> MappingNode | None:
    """The mapping that holds steps or jobs. A bare list of steps gets one around it."""
    first = documents[0] if documents else None
    if isinstance(first, SequenceNode):
        key = ScalarNode(
            value="steps",
            style="",
            tag=None,
            line=first.line,
            end_line=first.line,
            start=0,
            end=0,
        )
        fields = {"steps": Field(key, first)}
        return MappingNode(fields=fields, repeated=[], tag=None, line=first.line)
    return first if isinstance(first, MappingNode) else None


def jobs_of(root: MappingNode | None) -> tuple[PipelineJob, ...]:
    """The jobs of a workflow."""
    jobs = mapping_of(root.get("jobs")) if root else None
    if jobs is None:
        return ()
    return tuple(
        PipelineJob(id=name, key=field.key, node=field.value)
        for name, field in jobs.fields.items()
        if isinstance(field.value, MappingNode)
    )


def steps_of(
    kind: FileKind, root: MappingNode | None, jobs: tuple[PipelineJob, ...]
) -> tuple[PipelineStep, ...]:
    """All steps in the order of the file; those of a group follow it."""
    if root is None or kind is FileKind.DATA:
        return ()
    if kind is FileKind.WORKFLOW:
        return tuple(step for job in jobs for step in _github_steps(job.node, job))
    if kind is FileKind.ACTION:
        runs = mapping_of(root.get("runs"))
        return tuple(_github_steps(runs, None)) if runs else ()
    return tuple(_buildkite_steps(items_of(root.get("steps")), None, 0))


def _github_steps(holder: MappingNode, job: PipelineJob | None) -> Iterator[PipelineStep]:
    for node in items_of(holder.get("steps")):
        if isinstance(node, MappingNode):
            yield PipelineStep(node=node, kind=StepKind.COMMAND, job=job)
            for inner in items_of(node.get("parallel")):
                if isinstance(inner, MappingNode):
                    yield PipelineStep(node=inner, kind=StepKind.COMMAND, job=job)


def _buildkite_steps(
    items: list[Node], group: MappingNode | None, depth: int
) -> Iterator[PipelineStep]:
    for node in items:
        if not isinstance(node, MappingNode):
            continue
        kind = _kind(node)
        yield PipelineStep(node=node, kind=kind, group=group)
        if kind is StepKind.GROUP and depth < _DEEPEST_GROUP:
            yield from _buildkite_steps(items_of(node.get("steps")), node, depth + 1)
        else:
            yield from _mirrors(node, group)


def _kind(node: MappingNode) -> StepKind:
    named = text_of(node.get("type"))
    if named in _NAMED_KINDS:
        return _NAMED_KINDS[named]
    if node.get("command", "commands", "script", "plugins") is not None:
        return StepKind.COMMAND
    for key, kind in _KIND_KEYS:
        # `group: NAME` on a step of a generator says where it belongs.
        if key in node.fields and (kind is not StepKind.GROUP or node.get("steps") is not None):
            return kind
    return StepKind.COMMAND


def _mirrors(node: MappingNode, group: MappingNode | None) -> Iterator[PipelineStep]:
    """The same step for other hardware, under `mirror:`."""
    mirrors = mapping_of(node.get("mirror"))
    for field in mirrors.fields.values() if mirrors else ():
        other = field.value
        if not isinstance(other, MappingNode):
            continue
        fields = {
            name: Field(each.key, each.value, merged=True)
            for name, each in node.fields.items()
            if name not in ("mirror", "key")
        }
        fields.update(other.fields)
        both = MappingNode(
            fields=fields, repeated=[], tag=None, line=other.line, end_line=other.end_line
        )
        yield PipelineStep(node=both, kind=StepKind.COMMAND, group=group, mirrored=True)
