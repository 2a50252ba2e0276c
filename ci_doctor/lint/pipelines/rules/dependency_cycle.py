# SPDX-License-Identifier: Apache-2.0
"""Pure. Steps that wait for each other, so that none of them ever starts."""

from collections.abc import Iterator
from typing import Final

from ci_doctor.lint.lint_rule import LintRule
from ci_doctor.lint.pipelines.examples import buildkite, whole_workflow
from ci_doctor.lint.pipelines.pipeline_context import PipelineContext
from ci_doctor.lint.pipelines.pipeline_file import FileKind, PipelineFile, PipelineStep, StepKind
from ci_doctor.lint.pipelines.reading.yaml_nodes import (
    Node,
    ScalarNode,
    items_of,
    scalars_of,
    text_of,
)
from ci_doctor.lint.pipelines.rules.unknown_dependency import dependencies
from ci_doctor.lint.violation import Violation
from ci_doctor.model.finding import Severity
from ci_doctor.model.rule import Rule

RULE: Final = LintRule(
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


def check(pipeline: PipelineFile, _context: PipelineContext) -> Iterator[Violation]:
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
            RULE,
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
