# SPDX-License-Identifier: Apache-2.0
"""Pure. Rules about what a step waits for, and the keys by which it is named."""

import re
from collections.abc import Iterator
from typing import Final

from ci_doctor.lint.lint_rule import LintRule, Violation
from ci_doctor.lint.pipelines.pipeline_file import (
    FileKind,
    PipelineContext,
    PipelineFile,
    PipelineStep,
    StepKind,
    buildkite,
    job_steps,
    whole_workflow,
)
from ci_doctor.model.finding import Rule, Severity
from ci_doctor.model.words import letters_apart
from ci_doctor.syntax.yaml_nodes import (
    MappingNode,
    Node,
    ScalarNode,
    SequenceNode,
    items_of,
    scalars_of,
    text_of,
)

UNKNOWN_DEPENDENCY: Final = LintRule(
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


def unknown_dependency(pipeline: PipelineFile, context: PipelineContext) -> Iterator[Violation]:
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
                    UNKNOWN_DEPENDENCY,
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
                    UNKNOWN_DEPENDENCY,
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
    if name[-1] != key[-1] or abs(len(name) - len(key)) > 1 or _digits(key) != _digits(name):
        return False
    return letters_apart(name, key) <= 1


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


# Steps that wait for each other, so that none of them ever starts.

DEPENDENCY_CYCLE: Final = LintRule(
    rule=Rule(
        id="pipeline/dependency-cycle",
        severity=Severity.ERROR,
        meaning="Steps depend on each other in a circle. GitHub refuses such a workflow; in Buildkite none of the steps ever runs, and what they would have said is missing.",
        remedy="Remove one dependency of the circle.",
    ),
    bad=(
        buildkite(
            """
            steps:
              - {key: build, command: make, depends_on: test}
              - {key: test, command: pytest tests, depends_on: build}
            """
        ),
        buildkite("steps:\n  - {key: build, command: make, depends_on: [build]}\n"),
        buildkite(
            """
            steps:
              - {key: early, command: make, depends_on: late}
              - wait
              - {key: late, command: pytest tests}
            """
        ),
        buildkite(
            """
            steps:
              - group: gpu
                key: gpu
                depends_on: report
                steps:
                  - {key: run, command: pytest tests}
              - {key: report, command: make report, depends_on: [{step: run}]}
            """
        ),
        whole_workflow(
            """
            on: push
            jobs:
              a: {needs: c, runs-on: x, steps: [{run: make}]}
              b: {needs: a, runs-on: x, steps: [{run: make}]}
              c: {needs: [b], runs-on: x, steps: [{run: make}]}
            """
        ),
    ),
    good=(
        buildkite(
            """
            steps:
              - {key: build, command: make}
              - {key: test, command: pytest tests, depends_on: build}
              - {key: report, command: make report, depends_on: [build, test]}
            """
        ),
        buildkite(
            """
            steps:
              - {key: early, command: make}
              - wait
              - {key: late, command: pytest tests, depends_on: early}
            """
        ),
        buildkite(
            """
            steps:
              - group: gpu
                key: gpu
                depends_on: build
                steps:
                  - {key: run, command: pytest tests}
                  - {key: sum, command: make sum, depends_on: run}
              - {key: build, command: make}
            """
        ),
        whole_workflow(
            """
            on: push
            jobs:
              a: {runs-on: x, steps: [{run: make}]}
              b: {needs: a, runs-on: x, steps: [{run: make}]}
              c: {needs: [a, b], runs-on: x, steps: [{run: make}]}
            """
        ),
    ),
)

_MOST_NAMED = 6
Edges = dict[str, list[tuple[str, Node]]]


def dependency_cycle(pipeline: PipelineFile, _context: PipelineContext) -> Iterator[Violation]:
    """Each circle once, at the dependency that closes it."""
    if pipeline.kind is FileKind.WORKFLOW:
        edges: Edges = {
            job.id: [(name.value, name) for name in scalars_of(job.node.get("needs"))]
            for job in pipeline.jobs
        }
    elif pipeline.kind in (FileKind.BUILDKITE, FileKind.OWN_STEPS):
        edges = _edges(pipeline)
    else:
        return
    for path, node in _circles(edges):
        names = [each for each in path if not each.startswith("\0")]
        shown = " → ".join(
            [*names[:_MOST_NAMED], *(["…"] if len(names) > _MOST_NAMED else []), names[0]]
        )
        yield pipeline.violation(
            DEPENDENCY_CYCLE,
            node,
            f"these steps wait for each other: {shown}",
            remedy=f"Remove the dependency on `{text_of(node) or names[0]}`, or the one that leads back here.",
        )


def _edges(pipeline: PipelineFile) -> Edges:  # noqa: C901 - one branch for each case
    """Who waits for whom: by `depends_on`, by membership of a group, and by `wait`, `block` and `input`.

    A step with a `depends_on` of its own does not wait for a `wait` before it
    (https://buildkite.com/docs/pipelines/configure/dependencies).
    """
    edges: Edges = {}
    barrier: str | None = None
    since: list[tuple[str, Node]] = []
    of_group: dict[int, str] = {}
    nodes = {id(step.node): (index, step) for index, step in enumerate(pipeline.steps)}
    for item in _in_order(pipeline, nodes):
        if isinstance(item, ScalarNode):
            index, step = -item.start - 1, None
        else:
            index, step = item
        is_barrier = step is None or step.kind in (StepKind.WAIT, StepKind.BLOCK, StepKind.INPUT)
        name = _name(index, step)
        own = list(dependencies(step.node.get("depends_on"))) if step is not None else []
        place: Node = step.node if step is not None else item  # type: ignore[assignment]
        targets: list[tuple[str, Node]] = [(each.value, each) for each in own]
        if step is not None and step.group is not None and id(step.group) in of_group:
            holder = of_group[id(step.group)]
            edges.setdefault(holder, []).append((name, place))
            targets.append((f"\0start of {holder}", place))
        elif step is None or step.node.get("depends_on") is None:
            if barrier is not None:
                targets.append((barrier, place))
            if is_barrier:
                targets += since
        if step is not None and step.kind is StepKind.GROUP:
            of_group[id(step.node)] = name
            edges[f"\0start of {name}"] = targets
            edges.setdefault(name, []).append((f"\0start of {name}", place))
        else:
            edges.setdefault(name, []).extend(targets)
        if is_barrier:
            barrier, since = name, []
        elif step is not None and step.group is None:
            since.append((name, place))
    return edges


def _in_order(
    pipeline: PipelineFile, nodes: dict[int, tuple[int, PipelineStep]]
) -> Iterator[ScalarNode | tuple[int, PipelineStep]]:
    """The steps, and each plain `wait`, which is no mapping."""
    steps = items_of(pipeline.root.get("steps")) if pipeline.root is not None else []
    waiting: list[Node] = list(reversed(steps))
    while waiting:
        node = waiting.pop()
        if isinstance(node, ScalarNode):
            if node.value in ("wait", "waiter"):
                yield node
        elif id(node) in nodes:
            yield nodes.pop(id(node))
            waiting += reversed(items_of(node.get("steps")))  # type: ignore[union-attr]


def _name(index: int, step: PipelineStep | None) -> str:
    if step is not None:
        for field in ("key", "id", "identifier"):
            key = text_of(step.node.get(field))
            if key:
                return key
    return f"\0{index}"


def _circles(edges: Edges) -> Iterator[tuple[list[str], Node]]:
    """Circles with their closing dependency, by one walk over all edges."""
    done: set[str] = set()
    for first in edges:
        if first in done:
            continue
        path: list[str] = [first]
        places = {first: 0}
        rest = [iter(edges[first])]
        while rest:
            step = next(rest[-1], None)
            if step is None:
                rest.pop()
                name = path.pop()
                del places[name]
                done.add(name)
                continue
            name, node = step
            if name in places:
                circle = path[places[name] :]
                if any(not each.startswith("\0") for each in circle):
                    yield circle, node
            elif name in edges and name not in done:
                places[name] = len(path)
                path.append(name)
                rest.append(iter(edges[name]))


# Two steps with one key: Buildkite refuses the upload, GitHub the workflow.

DUPLICATE_STEP_KEY: Final = LintRule(
    rule=Rule(
        id="pipeline/duplicate-step-key",
        severity=Severity.ERROR,
        meaning="Two steps have the same key. Buildkite refuses the upload, GitHub the workflow.",
        remedy="Give each step a key of its own.",
    ),
    bad=(
        buildkite("steps:\n  - {key: tests, command: make a}\n  - {key: tests, command: make b}\n"),
        buildkite("steps:\n  - {key: tests, command: make a}\n  - {wait: ~, key: tests}\n"),
        buildkite(
            "steps:\n  - {key: t, command: make a}\n  - group: g\n    steps: [{key: t, command: make b}]\n"
        ),
        buildkite(
            "steps:\n  - {group: a, key: g, steps: [{command: make}]}\n  - {group: b, key: g, steps: [{command: make}]}\n"
        ),
        job_steps("- {id: build, run: make a}\n- {id: build, run: make b}\n"),
        job_steps("- {id: build, run: make a}\n- {id: Build, run: make b}\n"),
    ),
    good=(
        buildkite("steps:\n  - {key: a, command: make a}\n  - {key: b, command: make b}\n"),
        # An upload-time condition keeps one of the two.
        buildkite(
            """
            steps:
              - {key: tests, command: make a, if: build.branch == "main"}
              - {key: tests, command: make b, if: build.branch != "main"}
            """
        ),
        job_steps("- {id: a, run: make a}\n- {id: b, run: make b}\n"),
        buildkite(
            "steps:\n  - {key: '$NAME', command: make a}\n  - {key: '$NAME', command: make b}\n"
        ),
    ),
)


def duplicate_step_key(pipeline: PipelineFile, _context: PipelineContext) -> Iterator[Violation]:
    """Each key that a step before it in the same build or job has."""
    first: dict[tuple[int, str], tuple[PipelineStep, ScalarNode]] = {}
    github = pipeline.kind in (FileKind.WORKFLOW, FileKind.ACTION)
    for step in pipeline.steps:
        # `id` and `identifier` of a Buildkite step are other names of `key`.
        node = step.node.get("id") if github else step.node.get("key", "identifier")
        if not isinstance(node, ScalarNode) or not node.value or step.mirrored:
            continue
        if "$" in node.value or "{" in node.value:
            continue
        name = (id(step.job), node.value.lower() if github else node.value)
        before = first.setdefault(name, (step, node))
        if before[1] is node or (
            not github and (_is_conditional(step) or _is_conditional(before[0]))
        ):
            continue
        yield pipeline.violation(
            DUPLICATE_STEP_KEY,
            node,
            f"the key '{node.value}' is also that of the step in line {before[1].line}",
            related=(before[1],),
        )


def _is_conditional(step: PipelineStep) -> bool:
    """Buildkite leaves a step out of the build if its condition is false at the upload."""
    group = step.group
    return any(
        node is not None and node.get("if", "branches", "if_changed") is not None
        for node in (step.node, group)
    )


RULES: Final = (
    (UNKNOWN_DEPENDENCY, unknown_dependency),
    (DEPENDENCY_CYCLE, dependency_cycle),
    (DUPLICATE_STEP_KEY, duplicate_step_key),
)
