# SPDX-License-Identifier: Apache-2.0
"""Pure. Rules about values that the upload of a pipeline or nobody fills in."""

import re
from collections.abc import Iterator
from typing import Final

from ci_doctor.lint.lint_rule import LintRule, Violation
from ci_doctor.lint.pipelines.pipeline_file import (
    FileKind,
    PipelineContext,
    PipelineFile,
    buildkite,
    command_texts,
)
from ci_doctor.model.finding import Rule, Severity
from ci_doctor.syntax.yaml import (
    ScalarNode,
    items_of,
    mapping_of,
)

# Variables of the job that the upload of the pipeline replaces before there is a job.

LOST_AT_UPLOAD: Final = LintRule(
    rule=Rule(
        id="pipeline/lost-at-upload",
        severity=Severity.ERROR,
        meaning="`buildkite-agent pipeline upload` replaces `$NAME` and `${NAME}` by its own variables. What the command or the step sets is not there yet, so nothing stands in its place: `exit $rc` becomes `exit`.",
        remedy="Write `$$NAME` or `\\$NAME`, which the job's shell reads, or put the commands into a script.",
    ),
    bad=(
        buildkite(
            "steps:\n  - command: |\n      pytest tests\n      rc=$?\n      docker stop server\n      exit $rc\n"
        ),
        buildkite(
            "steps:\n  - command: curl -f localhost:${PORT}/health\n    env:\n      PORT: 8000\n"
        ),
        buildkite(
            "steps:\n  - commands:\n      - 'for each in a b; do pytest tests/$each; done'\n"
        ),
        buildkite(
            "steps:\n  - command: pytest --shard $BUILDKITE_PARALLEL_JOB tests\n    parallelism: 4\n"
        ),
        buildkite('steps:\n  - command: "export OUT=out; pytest --junitxml=${OUT}/a.xml"\n'),
    ),
    good=(
        buildkite(
            "steps:\n  - command: |\n      pytest tests\n      rc=$?\n      docker stop server\n      exit $$rc\n"
        ),
        buildkite(
            "steps:\n  - command: curl -f localhost:\\${PORT}/health\n    env:\n      PORT: 8000\n"
        ),
        buildkite("env:\n  PORT: 8000\nsteps:\n  - command: curl -f localhost:${PORT}/health\n"),
        buildkite("steps:\n  - command: make TAG=$BUILDKITE_COMMIT IMAGE=${IMAGE:-base}\n"),
        buildkite(
            "steps:\n  - command: pytest --shard $$BUILDKITE_PARALLEL_JOB tests\n    parallelism: 4\n"
        ),
    ),
)

_USED = re.compile(
    r"(?:\$\$|\\\$)|\$(?:\{(?P<braced>[A-Za-z_]\w*)(?P<rest>[^}\n]*)\}|(?P<plain>[A-Za-z_]\w*))"
)
_SET = re.compile(
    r"(?:^|[\s;&|({`])(?:(?:export|local|readonly|declare|typeset)\s+(?:-\w+\s+)*)?(?P<name>[A-Za-z_]\w*)(?:\[[^\]\n]{0,99}\])?\+?=(?!=)"
    r"|\bfor\s+(?P<loop>[A-Za-z_]\w*)\s+in\b|\bread\s+(?:-\w+\s+)*(?P<read>[A-Za-z_]\w*)"
    r"|\b(?:mapfile|readarray)\s+(?:-\w+\s+)*(?P<array>[A-Za-z_]\w*)|\bgetopts\s+\S+\s+(?P<option>\w+)",
    re.MULTILINE,
)
_OF_THE_JOB: Final = frozenset({"BUILDKITE_PARALLEL_JOB", "BUILDKITE_PARALLEL_JOB_COUNT"})


def lost_at_upload(pipeline: PipelineFile, context: PipelineContext) -> Iterator[Violation]:
    """Names that a step's commands or `env` set, used without an escape in the commands."""
    if pipeline.kind is not FileKind.BUILDKITE or (
        "--no-interpolation" in pipeline.text
        or any("--no-interpolation" in text for text in context.others.values())
    ):
        return
    root = mapping_of(pipeline.root.get("env")) if pipeline.root is not None else None
    known_early = set(root.fields) if root is not None else set()
    visited: set[int] = set()
    for step in pipeline.commands:
        texts = command_texts(step)
        if not texts or id(texts[0]) in visited:
            continue
        visited.update(map(id, texts))
        env = mapping_of(step.node.get("env"))
        of_step = set(env.fields) if env is not None else set()
        of_step |= {
            str(each.value).partition("=")[0]
            for each in items_of(step.node.get("env"))
            if isinstance(each, ScalarNode)
        }
        whole = "\n".join(text.value for text in texts)
        of_command = {name for match in _SET.finditer(whole) for name in match.groups() if name}
        reported: set[str] = set()
        for text in texts:
            for match in _USED.finditer(text.value):
                name = match["braced"] or match["plain"]
                # `IMAGE=${IMAGE:-base}`: the name gets its value from the
                # environment of the upload.
                if (
                    not name
                    or name in reported
                    or name in known_early
                    or text.value[: match.start()].rstrip("\"'").endswith(f"{name}=")
                ):
                    continue
                reason = _reason(name, of_command, of_step)
                if reason is None or (match["rest"] or "").startswith("?"):
                    continue
                reported.add(name)
                yield pipeline.violation(
                    LOST_AT_UPLOAD,
                    text,
                    f"`{match[0]}` is replaced when the pipeline is uploaded, and {reason}",
                    remedy=f"Write `${match[0]}`.",
                )


def _reason(name: str, of_command: set[str], of_step: set[str]) -> str | None:
    if name in _OF_THE_JOB:
        return "the step that uploads has no such value"
    if name in of_command:
        return f"the command of the step sets `{name}` only later"
    if name in of_step:
        return f"the `env` of the step sets `{name}` only later"
    return None


RULES: Final = ((LOST_AT_UPLOAD, lost_at_upload),)
