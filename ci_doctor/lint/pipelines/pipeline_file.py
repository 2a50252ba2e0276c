# SPDX-License-Identifier: Apache-2.0
"""Pure. A pipeline as its rules see it: what kind of file it is, its jobs and steps, and where they stand."""

import re
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from functools import lru_cache
from pathlib import PurePosixPath
from textwrap import dedent
from typing import Final

from msgspec import Struct

from ci_doctor.lint.lint_rule import Example, LintRule, Place, Violation, excerpt_of, word_set
from ci_doctor.lint.source_files import Shell, ShellSource
from ci_doctor.model.outcome import Severity
from ci_doctor.model.words import letters_apart
from ci_doctor.syntax.yaml import (
    Field,
    MappingNode,
    Node,
    ScalarNode,
    SequenceNode,
    items_of,
    mapping_of,
    scalar_lines,
    scalars_of,
    text_of,
)

# The keys of steps, from Buildkite's reference pages (read in 2026):
# https://buildkite.com/docs/pipelines/configure/step-types. A test compares them with the published schema of pipelines.

_ALL: Final = word_set(
    "allow_dependency_failure branches depends_on id identifier if key label name type"
)
COMMAND_KEYS: Final = _ALL | word_set(
    "agents artifact_paths cache cancel_on_build_failing checkout command commands concurrency "
    "concurrency_group concurrency_method env if_changed image matrix notify parallelism plugins priority "
    "retry secrets signature skip soft_fail timeout_in_minutes script"
)
WAIT_KEYS: Final = _ALL | {"wait", "waiter", "continue_on_failure", "if_changed"}
BLOCK_KEYS: Final = _ALL | {
    "block",
    "blocked_state",
    "fields",
    "prompt",
    "allowed_teams",
    "if_changed",
}
INPUT_KEYS: Final = _ALL | {
    "input",
    "blocked_state",
    "fields",
    "prompt",
    "allowed_teams",
    "if_changed",
}
TRIGGER_KEYS: Final = _ALL | {"trigger", "async", "build", "skip", "soft_fail", "if_changed"}
GROUP_KEYS: Final = _ALL | {"group", "steps", "if_changed", "notify", "skip"}
BUILDKITE_KEYS: Final = (
    COMMAND_KEYS | WAIT_KEYS | BLOCK_KEYS | INPUT_KEYS | TRIGGER_KEYS | GROUP_KEYS
)
PIPELINE_KEYS: Final = word_set("agents env image notify secrets priority checkout steps")
_STEPS_KEY: Final = frozenset({"steps"})
_GROUP_KEY: Final = frozenset({"group"})

# What the generators of public LLM-serving repositories add.
GENERATOR_KEYS: Final = word_set(
    "agent_pool agent_tags amd_only depends_on_any device dind fast_check fast_check_only gpu grade instance_size instance_type "
    "job_env mirror mirror_hardwares mirror_hardware mount_buildkite_agent no_gpu no_plugin num_devices "
    "num_gpus num_nodes optional source_file_dependencies torch_nightly working_dir"
)


@lru_cache(maxsize=1024)
def nearest_key(name: str, known: frozenset[str]) -> str | None:
    """The key that was probably meant: spelt alike but for case, `-` and `_`, or one or two letters."""
    plain = _plain(name)
    for key in sorted(known):
        if _plain(key) == plain:
            return key
    if len(plain) < 4:
        return None
    allowed = 1 if len(plain) < 8 else 2
    near = [(letters_apart(plain, _plain(key)), key) for key in known]
    best = min(near)
    return best[1] if best[0] <= allowed else None


def _plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")


# What of the repository a rule about one pipeline needs, as values and questions.


def _unknown(_name: str) -> None:
    """What a caller without a repository knows of any path."""
    return


class PipelineContext(Struct, frozen=True, kw_only=True):
    """The repository around a pipeline.

    read: the text of a file by its path from the root, or None. others: the texts of the
    repository's other pipelines, by file.
    """

    read: Callable[[str], str | None] = _unknown
    others: Mapping[str, str] = {}


# A pipeline as its rules see it: what kind of file it is, its jobs and steps, and where they stand.

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
    """A step. `group` is the group around it, `job` the job of a workflow that it belongs to."""

    node: MappingNode
    kind: StepKind
    group: MappingNode | None = None
    job: PipelineJob | None = None

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


def _short(text: str) -> str:
    return excerpt_of(" ".join(text.split()), _LONGEST_NAME)


# Whether a YAML file belongs to CI, and who reads it.

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
_USING = re.compile(r"^[ \t]+using:", re.MULTILINE)


def is_pipeline(file: str, text: str) -> bool:
    """Whether a YAML file is a pipeline, a workflow or an action.

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
    return by_place or by_steps


def is_workflow_path(path: PurePosixPath) -> bool:
    """Whether GitHub takes a file at this path for a workflow."""
    return path.suffix.lower() in _YAML and path.parts[-3:-1] == (".github", "workflows")


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
        if is_buildkites(file) and _has_misspelt_steps(root):
            return FileKind.BUILDKITE
    steps = root.get("steps") if isinstance(root, MappingNode) else root
    is_named = isinstance(root, MappingNode)
    if isinstance(steps, SequenceNode) and (is_named or _looks_like_steps(steps.items)):
        return _kind_of_steps(steps.items, is_buildkites(file))
    return FileKind.DATA


def is_buildkites(file: str) -> bool:
    """Whether the folder says that Buildkite reads the file, whatever its keys are."""
    return ".buildkite" in PurePosixPath(file).parts[:-1]


def _has_misspelt_steps(root: MappingNode) -> bool:
    return root.get("steps") is None and any(
        isinstance(field.value, SequenceNode)
        and nearest_key(name, _STEPS_KEY) is not None
        and _looks_like_steps(field.value.items)
        for name, field in root.fields.items()
    )


def _looks_like_steps(items: list[Node]) -> bool:
    steps = [each for each in items[:50] if isinstance(each, MappingNode)]
    commands = [
        each for each in steps if each.get("command", "commands", "plugins", "block", "group")
    ]
    return bool(commands) and 2 * len(commands) >= len(steps)


def _kind_of_steps(items: list[Node], is_buildkites: bool) -> FileKind:
    """Own steps if a generator's key stands in one, or if many keys are nobody's we know.

    Only where the folder is Buildkite's, a key that is nearly one of Buildkite's is a misspelt one.
    """
    steps = [each for each in items if isinstance(each, MappingNode)]
    known = own = 0
    for step in steps[:400]:
        names = set(step.fields)
        own += len(names & GENERATOR_KEYS)
        others = names - BUILDKITE_KEYS
        if is_buildkites:
            others = {name for name in others if nearest_key(name, BUILDKITE_KEYS) is None}
        known += len(names) - len(others)
        if (
            step.get("command", "commands", "plugins", "trigger", "block", "input", "group", "wait")
            is None
        ):
            own += len(others) > 1
    if own:
        return FileKind.OWN_STEPS
    is_empty = is_buildkites and not any(step.fields for step in steps)
    return FileKind.BUILDKITE if known or not steps or is_empty else FileKind.DATA


# The jobs and steps of a pipeline, a workflow or an action, from its nodes.

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
# By which the agent infers what a step does, besides `type` (stepByKeyInference of
# https://github.com/buildkite/go-pipeline, read in 2026), and `script`, which other readers take.
KIND_KEYS: Final = word_set(
    "block command commands group input manual plugins script trigger wait waiter"
)
_TYPES: Final = word_set("block command group input manual script trigger wait waiter")
# The steps that are one word (NewScalarStep of the same).
STEP_WORDS: Final = word_set("block input manual wait waiter")
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
        return MappingNode(fields=fields, tag=None, line=first.line)
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
            # The same step for other hardware, under `mirror:`.
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
                    fields=fields, tag=None, line=other.line, end_line=other.end_line
                )
                yield PipelineStep(node=both, kind=StepKind.COMMAND, group=group)


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
    if node.get("steps") is not None and any(nearest_key(name, _GROUP_KEY) for name in node.fields):
        return StepKind.GROUP
    return StepKind.COMMAND


def names_its_kind(node: MappingNode) -> bool:
    """Whether the agent can tell what a step does; the `type` may be filled in later."""
    named = text_of(node.get("type")) or ""
    return bool(KIND_KEYS & set(node.fields)) or named in _TYPES or "$" in named or "{" in named


# Short forms of the files in the examples of rules about pipelines.


def buildkite(text: str) -> tuple[Example, ...]:
    """A pipeline of Buildkite."""
    return (Example(file=".buildkite/pipeline.yml", text=dedent(text)),)


def workflow(text: str) -> tuple[Example, ...]:
    """A workflow of GitHub with one job `test`; `text` holds the keys of the job."""
    body = dedent(text).strip("\n").replace("\n", "\n    ")
    return (
        Example(file=".github/workflows/test.yml", text=f"on: push\njobs:\n  test:\n    {body}\n"),
    )


def whole_workflow(text: str) -> tuple[Example, ...]:
    """A workflow of GitHub as it stands."""
    return (Example(file=".github/workflows/test.yml", text=dedent(text)),)


def job_steps(text: str) -> tuple[Example, ...]:
    """A workflow of GitHub with one job; `text` holds the items of its `steps`."""
    body = dedent(text).strip("\n").replace("\n", "\n  ")
    return workflow(f"runs-on: ubuntu-24.04\ntimeout-minutes: 30\nsteps:\n  {body}\n")


# The shell programs of a pipeline's steps, with their place and the options of who runs them.

# An expression does not reach over the beginning of another one: a text of beginnings takes no longer.
# `${{ … }}` of GitHub, and `{{ … }}` of a Buildkite matrix or a template: a value nobody knows yet.
_EXPRESSION = re.compile(r"\$?\{\{(?:(?!\{\{).)*?\}\}", re.DOTALL)
_STATEMENT = re.compile(r"\{%(?:(?!\{%).)*?%\}|\{#(?:(?!\{#).)*?#\}", re.DOTALL)
# What a pipeline upload leaves of an escaped dollar sign.
_DOLLARS = re.compile(r"(?:\$|\\)\$")
_OPTION = re.compile(r"(?:^|\s)-(?!-)([A-Za-z]+)(?:\s+(\w+))?")
# What only PowerShell has. A matrix may hold the runner's name, so that the system is not known.
_POWERSHELL = re.compile(
    r"\$env:\w|\$ErrorActionPreference\b|\s-ErrorAction\b|\[System\.|\$\(?LASTEXITCODE\b"
    r"|(?<![\w./-])(?:Get|Set|New|Test|Remove|Invoke|Write|Join|Expand)-[A-Z][A-Za-z]+"
)
_SHELLS = {"bash": Shell.BASH, "sh": Shell.SH}


def scripts_of(pipeline: PipelineFile) -> tuple[ShellSource, ...]:
    """One program for each step that runs a shell. A list of commands is one program."""
    visited: set[int] = set()
    sources = []
    for step in pipeline.steps:
        if step.kind is not StepKind.COMMAND:
            continue
        node = (
            step.node.get("run")
            if _is_github(pipeline)
            else step.node.get("commands", "command", "script")
        )
        if node is None or id(node) in visited:
            continue
        visited.add(id(node))
        source = (
            _github(pipeline, step, node)
            if _is_github(pipeline)
            else _buildkite(pipeline, step, node)
        )
        if source is not None:
            sources.append(source)
    return tuple(sources)


def _is_github(pipeline: PipelineFile) -> bool:
    return pipeline.kind in (FileKind.WORKFLOW, FileKind.ACTION)


def command_texts(step: PipelineStep) -> list[ScalarNode]:
    """The commands of a step as they stand."""
    return scalars_of(step.node.get("commands", "command", "script", "run"))


def _buildkite(pipeline: PipelineFile, step: PipelineStep, node: Node) -> ShellSource | None:
    """The agent joins the commands with newlines and runs `bash -e -c`.

    A generator's commands, joined by `&&`, also end at the first that fails.
    """
    parts = [each for each in scalars_of(node) if each.value.strip()]
    if not parts:
        return None
    lines: list[int] = []
    texts = []
    for part in parts:
        text = part.value.removesuffix("\n")
        numbers = scalar_lines(part, pipeline.text)[: text.count("\n") + 1]
        texts.append(text)
        lines += numbers
    whole = "\n".join(texts)
    plain = _DOLLARS.sub("$", whole)
    offset = _offset(parts[0], pipeline.text) if len(parts) == 1 and plain == whole else None
    return ShellSource(
        file=pipeline.file,
        text=_without_templates(plain),
        shell=_buildkite_shell(step.node),
        lines=tuple(lines),
        offset=offset,
        errexit=True,
        embedded=f"the command of {step.name}",
    )


def _buildkite_shell(step: MappingNode) -> Shell:
    """The docker plugins run a command by `/bin/sh -e -c` unless they are told otherwise."""
    for each in items_of(step.get("plugins")):
        plugin = mapping_of(each)
        for name, field in plugin.fields.items() if plugin else ():
            options = mapping_of(field.value)
            if options and re.match(r"docker(-compose)?(#|$)", name):
                words = scalars_of(options.get("shell"))
                bash = any("bash" in word.value for word in words)
                return Shell.BASH if bash else Shell.SH
    return Shell.BASH


def _github(pipeline: PipelineFile, step: PipelineStep, node: Node) -> ShellSource | None:
    if not isinstance(node, ScalarNode) or not node.value.strip():
        return None
    options = _github_shell(pipeline, step)
    if options is None or (not _named_shell(pipeline, step) and _POWERSHELL.search(node.value)):
        return None
    shell, errexit, pipefail = options
    text = node.value.removesuffix("\n")
    return ShellSource(
        file=pipeline.file,
        text=_without_templates(text),
        shell=shell,
        lines=scalar_lines(node, pipeline.text)[: text.count("\n") + 1],
        offset=_offset(node, pipeline.text),
        errexit=errexit,
        pipefail=pipefail,
        embedded=f"the script of {step.name}",
    )


def _github_shell(pipeline: PipelineFile, step: PipelineStep) -> tuple[Shell, bool, bool] | None:
    """Who runs a `run`, with errexit and pipefail; None if it is no shell of ours."""
    named = _named_shell(pipeline, step)
    if named is None:
        if step.job is None or not _runs_windows(step.job):
            # In a container without bash it is `sh -e`, which has the same option.
            return Shell.BASH, True, False
        return None
    words = named.split()
    if not words:
        return None
    program = words[0].rsplit("/", 1)[-1]
    if program not in _SHELLS:
        return None
    if len(words) == 1:
        return _SHELLS[program], True, program == "bash"
    letters = [(match.group(1), match.group(2)) for match in _OPTION.finditer(named)]
    errexit = any("e" in options for options, _ in letters)
    pipefail = any(options.endswith("o") and value == "pipefail" for options, value in letters)
    return _SHELLS[program], errexit, pipefail


def _named_shell(pipeline: PipelineFile, step: PipelineStep) -> str | None:
    own = text_of(step.node.get("shell"))
    if own:
        return own
    for holder in (step.job.node if step.job else None, pipeline.root):
        defaults = mapping_of(holder.get("defaults")) if holder else None
        run = mapping_of(defaults.get("run")) if defaults else None
        shell = text_of(run.get("shell")) if run else None
        if shell:
            return shell
    return None


def _runs_windows(job: PipelineJob) -> bool:
    labels = scalars_of(job.node.get("runs-on"))
    return any("windows" in label.value.lower() for label in labels)


def _offset(node: ScalarNode, text: str) -> int | None:
    """Where the value stands in the file as it is; None if it does not stand there in one piece."""
    start = node.start + (1 if node.style in ("'", '"') else 0)
    if node.end_line == node.line and text.startswith(node.value, start):
        return start
    return None


def _without_templates(text: str) -> str:
    """The text with a parameter of the same length in the place of each expression."""
    if "{{" not in text and "{%" not in text and "{#" not in text:
        return text
    text = _STATEMENT.sub(_blank, text) if "{%" in text else text
    return _EXPRESSION.sub(_parameter, text)


def _parameter(match: re.Match[str]) -> str:
    written = match.group()
    breaks = written.count("\n")
    length = len(written) - 2 * breaks
    name = "E" * max(1, length - 3)
    return "${" + name + "}" + "\\\n" * breaks


def _blank(match: re.Match[str]) -> str:
    return "".join("\n" if letter == "\n" else " " for letter in match.group())
