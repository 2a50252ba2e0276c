# SPDX-License-Identifier: Apache-2.0
"""Pure. The shell programs of a pipeline's steps, with their place and the options of who runs them."""

import re
from collections.abc import Iterator

from ci_doctor.lint.pipelines.pipeline_file import (
    FileKind,
    PipelineFile,
    PipelineJob,
    PipelineStep,
    StepKind,
)
from ci_doctor.lint.source_files import Shell, ShellSource
from ci_doctor.syntax.yaml_nodes import (
    MappingNode,
    Node,
    ScalarNode,
    items_of,
    mapping_of,
    scalar_lines,
    scalars_of,
    text_of,
)

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


def steps_with_scripts(pipeline: PipelineFile) -> Iterator[tuple[PipelineStep, list[ScalarNode]]]:
    """The steps that run commands, with these."""
    for step in pipeline.commands:
        texts = command_texts(step)
        if texts:
            yield step, texts
