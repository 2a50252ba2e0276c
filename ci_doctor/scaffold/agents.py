# SPDX-License-Identifier: Apache-2.0
"""Pure. The steps of Buildkite pipelines: which of them runs a script, also through others, and on which agents."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from ci_doctor.scaffold.servers import ScriptPlace, SourceFile, TextKind
from ci_doctor.syntax.yaml import (
    MappingNode,
    Node,
    compose,
    items_of,
    mapping_of,
    scalars_of,
    text_of,
    with_plain_breaks,
)

Tags = tuple[tuple[str, str], ...]
_DEEPEST: Final = 5  # scripts that call scripts
_CALLED: Final = re.compile(r"[\w./@+-]+")
_UPWARDS: Final = re.compile(r"^(?:\.{0,2}/)+")
_TAG: Final = re.compile(r"\s*([^=\s]+)\s*=\s*(.*?)\s*", re.DOTALL)


class PipelineStep(Struct, frozen=True, kw_only=True):
    """A step with its lines in `file`, its commands as one text, and the tags of its agents.

    The tags are those of the pipeline where the step has none; empty if nothing says them.
    """

    file: str
    line: int
    end_line: int
    commands: str
    agents: Tags = ()

    @property
    def place(self) -> str:
        """`file:line`."""
        return f"{self.file}:{self.line}"


def steps_of(source: SourceFile) -> Iterator[PipelineStep]:
    """The steps of a pipeline that run a command, those of groups too, in their order."""
    for document in compose(with_plain_breaks(source.text)).documents:
        root = mapping_of(document)
        steps = document if root is None else root.get("steps")
        common = () if root is None else _tags(root.get("agents"))
        yield from _steps(items_of(steps), source.path, common)


def _steps(items: Iterable[Node], file: str, common: Tags) -> Iterator[PipelineStep]:
    for item in items:
        # Agents read `command: {…}` as the step itself.
        step = mapping_of(item)
        if step is None:
            continue
        yield from _steps(items_of(step.get("steps")), file, common)
        nested = mapping_of(step.get("command", "commands"))
        for each in (step, nested) if nested is not None else (step,):
            texts = [node.value for node in scalars_of(each.get("command", "commands"))]
            if texts:
                yield PipelineStep(
                    file=file,
                    line=step.line,
                    end_line=max(step.end_line, step.line),
                    commands="\n".join(texts),
                    agents=_tags(each.get("agents")) or common,
                )


def _tags(node: Node | None) -> Tags:
    """`{queue: gpu}`, `["queue=gpu"]` and `queue=gpu` say the same."""
    if isinstance(node, MappingNode):
        pairs = ((name, text_of(field.value)) for name, field in node.fields.items())
        return tuple((name, value) for name, value in pairs if value is not None)
    matches = (_TAG.fullmatch(scalar.value) for scalar in scalars_of(node))
    return tuple((match[1], match[2]) for match in matches if match is not None)


def queues_in(steps: Iterable[PipelineStep]) -> tuple[str, ...]:
    """The queues that steps name, in the order of their names."""
    return tuple(
        sorted({value for step in steps for name, value in step.agents if name == "queue"})
    )


class Callers:
    """What runs which script: the steps of pipelines, and the scripts that call each other."""

    def __init__(self, sources: Sequence[SourceFile], files: Iterable[str]) -> None:
        """`files` are all names of the repository."""
        self._by_name: dict[str, list[str]] = {}
        for name in files:
            self._by_name.setdefault(name.rpartition("/")[2], []).append(name)
        pipelines = [each for each in sources if each.place is ScriptPlace.PIPELINE]
        self.steps = [step for source in pipelines for step in steps_of(source)]
        self._steps_by_script: dict[str, list[PipelineStep]] = {}
        for step in self.steps:
            for script in self._called(step.commands):
                self._steps_by_script.setdefault(script, []).append(step)
        self._callers: dict[str, list[str]] = {}
        for source in sources:
            if source.kind in (TextKind.SHELL, TextKind.MAKEFILE):
                for script in self._called(source.text):
                    self._callers.setdefault(script, []).append(source.path)

    def step_of(self, file: str, line: int) -> PipelineStep | None:
        """The step that runs the command in this line; None if none is known to."""
        for step in self.steps:
            if step.file == file and step.line <= line <= step.end_line:
                return step
        known = {file}
        reached = [file]
        for _ in range(_DEEPEST):
            for script in reached:
                for step in self._steps_by_script.get(script, ()):
                    return step
            callers = dict.fromkeys(
                caller for script in reached for caller in self._callers.get(script, ())
            )
            reached = [caller for caller in callers if caller not in known]
            known.update(reached)
        return None

    def _called(self, text: str) -> Iterator[str]:
        """The files of the repository that a text names, by their path or the end of it."""
        for word in dict.fromkeys(_CALLED.findall(text)):
            path = _UPWARDS.sub("", word)
            last = path.rpartition("/")[2]
            if last == "make":
                yield from (each for each in ("Makefile", "makefile") if each in self._by_name)
            named = self._by_name.get(last, ()) if "." in last else ()
            same = [name for name in named if name == path]
            ends = [name for name in named if name.endswith(f"/{path}")]
            # `/workspace/ci/run.sh` and `$ROOT/ci/run.sh` lead here, too.
            yield from same or ends or [name for name in named if path.endswith(f"/{name}")]


def agents_by_origin(
    places: Iterable[tuple[str, int]], callers: Callers
) -> Mapping[str, PipelineStep]:
    """The step of each command, by its `file:line`; one that no step runs is left out."""
    made = {}
    for file, line in places:
        step = callers.step_of(file, line)
        if step is not None:
            made[f"{file}:{line}"] = step
    return made
