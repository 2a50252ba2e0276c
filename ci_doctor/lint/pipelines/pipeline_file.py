# SPDX-License-Identifier: Apache-2.0
"""Pure. A pipeline as its rules see it: what kind of file it is, its jobs and steps, and where they stand."""

from enum import StrEnum

from msgspec import Struct

from ci_doctor.lint.excerpt import excerpt_of
from ci_doctor.lint.lint_rule import LintRule
from ci_doctor.lint.pipelines.reading.yaml_nodes import MappingNode, Node, ScalarNode, text_of
from ci_doctor.lint.violation import Edit, Place, Violation
from ci_doctor.model.finding import Severity

_LONGEST_NAME = 60


class FileKind(StrEnum):
    """Who reads the file."""

    BUILDKITE = "buildkite"
    # Steps with keys of the repository's own, from which a generator makes a Buildkite pipeline.
    OWN_STEPS = "own-steps"
    WORKFLOW = "workflow"
    ACTION = "action"
    # Any other YAML of CI: a matrix of configurations, a changelog.
    DATA = "data"


class StepKind(StrEnum):
    """What a step does; those of GitHub are all COMMAND."""

    COMMAND = "command"
    WAIT = "wait"
    BLOCK = "block"
    INPUT = "input"
    TRIGGER = "trigger"
    GROUP = "group"


class PipelineJob(Struct, frozen=True, eq=False, kw_only=True):
    """A job of a workflow."""

    id: str
    key: ScalarNode
    node: MappingNode


class PipelineStep(Struct, frozen=True, eq=False, kw_only=True):
    """A step. `group` is the group around it, `job` the job of a workflow that it belongs to.

    `mirrored`: it stands in a `mirror:` of another step, whose keys it has if it has no own.
    """

    node: MappingNode
    kind: StepKind
    group: MappingNode | None = None
    job: PipelineJob | None = None
    mirrored: bool = False

    @property
    def name(self) -> str:
        """How a sentence calls it: `step 'tests'`, or the line where it has no name."""
        for key in ("label", "name", "key", "id", "group", "block", "uses"):
            text = text_of(self.node.get(key))
            if text and text.strip():
                return f"step '{_short(text)}'"
        return f"the step of line {self.node.line}"


class PipelineFile(Struct, frozen=True, eq=False, kw_only=True):
    """A file with its documents.

    lines: the text's lines. root: the mapping that holds steps or jobs; None if there is none.
    job_steps: the steps of each job, by its id.
    """

    file: str
    text: str
    lines: list[str]
    kind: FileKind
    documents: tuple[Node, ...]
    root: MappingNode | None = None
    jobs: tuple[PipelineJob, ...] = ()
    steps: tuple[PipelineStep, ...] = ()
    job_steps: dict[str, list[PipelineStep]] = {}

    @property
    def commands(self) -> tuple[PipelineStep, ...]:
        """The steps that run something."""
        return tuple(step for step in self.steps if step.kind is StepKind.COMMAND)

    def place(self, node: Node) -> Place:
        """Where a node stands: all lines of a text, the first line of a list or mapping."""
        end = node.end_line if isinstance(node, ScalarNode) else node.line
        return Place(file=self.file, line=node.line, end_line=end)

    def violation(
        self,
        rule: LintRule,
        node: Node,
        summary: str,
        *,
        remedy: str | None = None,
        severity: Severity | None = None,
        related: tuple[Node, ...] = (),
    ) -> Violation:
        """A violation at `node`, with its line as the excerpt."""
        excerpt = self.lines[node.line - 1] if node.line <= len(self.lines) else ""
        return Violation(
            rule=rule,
            place=self.place(node),
            summary=summary,
            excerpt=excerpt_of(excerpt),
            remedy=remedy,
            severity=severity,
            related=tuple(self.place(each) for each in related),
        )

    def replace(self, node: ScalarNode, text: str) -> tuple[Edit, ...]:
        """An edit that puts `text` where a scalar of one line stands, its quotes included."""
        if node.end_line != node.line:
            return ()
        return (Edit(file=self.file, start=node.start, end=node.end, text=text),)


def _short(text: str) -> str:
    return excerpt_of(" ".join(text.split()), _LONGEST_NAME)
