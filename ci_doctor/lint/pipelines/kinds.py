# SPDX-License-Identifier: Apache-2.0
"""Pure. Whether a YAML file belongs to CI, and who reads it."""

import re
from itertools import islice
from pathlib import PurePosixPath

from ci_doctor.lint.pipelines.pipeline_file import FileKind
from ci_doctor.lint.pipelines.reading.yaml_nodes import MappingNode, Node, SequenceNode, items_of
from ci_doctor.lint.pipelines.step_keys import BUILDKITE_KEYS, GENERATOR_KEYS

_YAML = (".yml", ".yaml")
_CI_FOLDERS = frozenset({".buildkite", ".ci", "ci", ".circleci", ".gitlab"})
# Files of GitHub's that hold no steps, and have readers of their own.
_NOT_CI = frozenset(
    {"dependabot", "config", "labeler", "mergify", "release", "funding", "stale", "codecov"}
)
_STEPS = re.compile(r"^steps:[ \t]*(?:#.*)?\r?$", re.MULTILINE)
_STEP = re.compile(
    r"^[ \t]*-[ \t]+(?:\{[ \t]*)?[\"']?(?:label|commands?|block|input|trigger|group|wait|plugins)\b",
    re.MULTILINE,
)
_RECORD = re.compile(r"^-[ \t]+[\w-]+:", re.MULTILINE)
_FIRST = re.compile(r"(?:\ufeff|---[^\n]*\n|[ \t]*#[^\n]*\n|[ \t]*\r?\n)*-[ \t]")
_USING = re.compile(r"^[ \t]+using:", re.MULTILINE)
_FEWEST_RECORDS = 20


def is_pipeline(file: str, text: str) -> bool:
    """Whether a YAML file is a pipeline, a workflow or an action, or a list of records of CI.

    `file` is its path from the root of the repository. Answers by the path and a look at lines,
    so that it also knows files that cannot be parsed.
    """
    path = PurePosixPath(file)
    if path.suffix.lower() not in _YAML:
        return False
    if is_workflow_path(path):
        return True
    if path.stem.lower() == "action":
        return _USING.search(text) is not None
    folders = set(path.parts[:-1])
    if ".github" in folders:
        return "ISSUE_TEMPLATE" not in folders and path.stem.lower() not in _NOT_CI
    by_place = bool(_CI_FOLDERS & folders) or path.name == ".gitlab-ci.yml"
    by_steps = _STEPS.search(text) is not None and _STEP.search(text) is not None
    return by_place or by_steps or _holds_records(text)


def is_workflow_path(path: PurePosixPath) -> bool:
    """Whether GitHub takes a file at this path for a workflow."""
    return path.suffix.lower() in _YAML and path.parts[-3:-1] == (".github", "workflows")


def _holds_records(text: str) -> bool:
    """A list of many mappings at the top, as a changelog that CI reads."""
    if _FIRST.match(text) is None:
        return False
    first = islice(_RECORD.finditer(text), _FEWEST_RECORDS)
    return len(list(first)) == _FEWEST_RECORDS


def kind_of(file: str, documents: tuple[Node, ...]) -> FileKind:
    """Who reads the file, by its path and its first document."""
    path = PurePosixPath(file)
    root = documents[0] if documents else None
    if is_workflow_path(path):
        return FileKind.WORKFLOW
    if isinstance(root, MappingNode):
        if path.stem.lower() == "action" and root.get("runs") is not None:
            return FileKind.ACTION
        if isinstance(root.get("jobs"), MappingNode) and root.get("on", "true") is not None:
            return FileKind.WORKFLOW
        if isinstance(root.get("steps"), SequenceNode):
            return _kind_of_steps(items_of(root.get("steps")))
    if isinstance(root, SequenceNode) and _looks_like_steps(root.items):
        return _kind_of_steps(root.items)
    return FileKind.DATA


def _looks_like_steps(items: list[Node]) -> bool:
    steps = [each for each in items[:50] if isinstance(each, MappingNode)]
    commands = [
        each for each in steps if each.get("command", "commands", "plugins", "block", "group")
    ]
    return bool(commands) and 2 * len(commands) >= len(steps)


def _kind_of_steps(items: list[Node]) -> FileKind:
    """Own steps if a generator's key stands in one, or if many keys are nobody's we know."""
    steps = [each for each in items if isinstance(each, MappingNode)]
    known = own = 0
    for step in steps[:400]:
        names = set(step.fields)
        own += len(names & GENERATOR_KEYS)
        known += len(names & BUILDKITE_KEYS)
        if (
            step.get("command", "commands", "plugins", "trigger", "block", "input", "group", "wait")
            is None
        ):
            own += len(names - BUILDKITE_KEYS) > 1
    if own:
        return FileKind.OWN_STEPS
    return FileKind.BUILDKITE if known or not steps else FileKind.DATA
