# SPDX-License-Identifier: Apache-2.0
"""Pure. Rules about the time that a step may take."""

import re
from collections.abc import Iterator
from typing import Final

from ci_doctor.lint.lint_rule import LintRule, Violation
from ci_doctor.lint.pipelines.pipeline_file import (
    FileKind,
    PipelineContext,
    PipelineFile,
    PipelineJob,
    PipelineStep,
    buildkite,
    command_texts,
    workflow,
)
from ci_doctor.model.finding import Rule, Severity
from ci_doctor.syntax.yaml import (
    MappingNode,
    Node,
    ScalarNode,
    is_true,
    items_of,
    mapping_of,
    scalars_of,
    text_of,
    walk,
    whole_number,
)

# Tries and time limits inside a step that do not fit into the time limit of the step.


# A step on a GPU machine that nothing ends: a hang holds the machine for hours.

GPU_STEP_WITHOUT_TIMEOUT: Final = LintRule(
    rule=Rule(
        id="pipeline/gpu-step-without-timeout",
        severity=Severity.WARNING,
        meaning="A step on a GPU machine has no time limit. If a server or a collective hangs, the machine is lost to everybody else until somebody notices.",
        remedy="Give the step `timeout_in_minutes` (GitHub: `timeout-minutes`), about twice what it takes when it is green.",
    ),
    bad=(
        buildkite("steps:\n  - command: pytest tests\n    agents: {queue: gpu_1_queue}\n"),
        buildkite("steps:\n  - command: pytest tests\n    agents: [queue=h100]\n"),
        buildkite(
            "steps:\n  - commands: [pytest tests]\n    num_gpus: 2\n    working_dir: /tests\n"
        ),
        buildkite("agents: {queue: a100_queue}\nsteps:\n  - command: pytest tests\n"),
        buildkite(
            """
            steps:
              - command: pytest tests
                plugins:
                  - kubernetes:
                      podSpec:
                        containers:
                          - resources: {limits: {nvidia.com/gpu: 8}}
            """
        ),
        buildkite(
            "steps:\n  - command: pytest tests\n    plugins: [{docker#v5.2.0: {gpus: all}}]\n"
        ),
        workflow("runs-on: [self-hosted, linux, h100]\nsteps:\n- run: pytest tests\n"),
        workflow("runs-on: linux-mi300-gpu-1\nsteps:\n- run: pytest tests\n"),
    ),
    good=(
        buildkite(
            "steps:\n  - command: pytest tests\n    timeout_in_minutes: 30\n    agents: {queue: gpu_1_queue}\n"
        ),
        buildkite("steps:\n  - command: pytest tests\n    agents: {queue: cpu_queue}\n"),
        buildkite(
            "timeout_in_minutes: 30\nsteps:\n  - command: pytest tests\n    agents: {queue: h100}\n"
        ),
        buildkite("steps:\n  - command: timeout 20m pytest tests\n    agents: {queue: h100}\n"),
        buildkite("steps:\n  - trigger: gpu-tests\n"),
        workflow("runs-on: h100\ntimeout-minutes: 30\nsteps:\n- run: pytest tests\n"),
        workflow("runs-on: h100\nsteps:\n- run: pytest tests\n  timeout-minutes: 30\n"),
        workflow("runs-on: ubuntu-24.04\nsteps:\n- run: pytest tests --deselect gpu\n"),
    ),
)

_GPU = re.compile(
    r"(?<![a-z])(?:gpus?|nvidia|cuda|[gd]?[hb][12]00|gb[23]00|a100|a10g?|l40s?|l4|t4|v100|mi\d{3}x?|dgx|rtx)(?![a-z])",
    re.IGNORECASE,
)
_NO_GPU = re.compile(
    r"(?<![a-z])(?:cpu|no[-_]?gpu|non[-_]?gpu|without[-_]gpu)(?![a-z])", re.IGNORECASE
)
_NAMES_GPU = ("nvidia.com/gpu", "amd.com/gpu")
# Keys by which generators ask for GPUs; None: any value, else the value must name one.
_COUNTS = ("num_gpus", "gpus", "gpu_count", "num_devices")
_KINDS = ("gpu", "agent_pool", "device", "gpu_type", "resource_class", "instance_type")
_LIMITED = re.compile(r"\s*(?:sudo\s+)?g?timeout\s+\S")
_LIMITS = (
    "timeout_in_minutes",
    "timeout-minutes",
    "timeout",
    "default_timeout_in_minutes",
    "default_timeout",
)


def gpu_step_without_timeout(
    pipeline: PipelineFile, _context: PipelineContext
) -> Iterator[Violation]:
    """Steps of Buildkite and jobs of GitHub on a GPU, of which nothing bounds the time."""
    if pipeline.kind is FileKind.WORKFLOW:
        for job in pipeline.jobs:
            runs_on = job.node.get("runs-on")
            if runs_on is None or _limited(job.node):
                continue
            steps = [each for each in pipeline.job_steps.get(job.id, ()) if each.node.get("run")]
            if steps and all(_limited(step.node) for step in steps):
                continue
            word = _gpu_word(_runner_words(runs_on, job))
            if word:
                yield pipeline.violation(
                    GPU_STEP_WITHOUT_TIMEOUT,
                    job.key,
                    f"the job '{job.id}' runs on a GPU ({word}) and has no time limit but GitHub's 6 hours",
                )
    elif pipeline.kind in (FileKind.BUILDKITE, FileKind.OWN_STEPS):
        yield from _steps(pipeline)


def _steps(pipeline: PipelineFile) -> Iterator[Violation]:
    root = pipeline.root
    if root is None or _limited(root):
        return
    for step in pipeline.commands:
        texts = command_texts(step)
        if not texts or _limited(step.node) or (step.group is not None and _limited(step.group)):
            continue
        if any(_LIMITED.match(line) for text in texts for line in text.value.splitlines()):
            continue
        asked = _asks_for_gpu(step, root)
        # A mirror without commands of its own is the step above it, and has its time limit.
        if asked:
            yield pipeline.violation(
                GPU_STEP_WITHOUT_TIMEOUT,
                _first(step),
                f"{step.name} runs on a GPU ({asked}) and has no time limit",
            )


def _limited(node: MappingNode) -> bool:
    agents = mapping_of(node.get("agents"))
    # A batch system behind the agent has a time limit of its own.
    batch = agents is not None and any(name.endswith("_time") for name in agents.fields)
    return batch or node.get(*_LIMITS) is not None


def _first(step: PipelineStep) -> Node:
    """The key of the step's name, which is where a reader looks for it."""
    for key in ("label", "name", "key", "command", "commands"):
        field = step.node.fields.get(key)
        if field is not None and not field.merged:
            return field.key
    return step.node


def _asks_for_gpu(step: PipelineStep, root: MappingNode) -> str | None:
    """The words by which a step asks for a GPU; None if it does not."""
    node = step.node
    if is_true(node.get("no_gpu")):
        return None
    for agents in (node.get("agents"), root.get("agents")):
        if agents is not None:
            return _gpu_word(_agent_words(agents)) or _plugin_gpu(node)
    for key in _KINDS:
        word = _gpu_word([text_of(node.get(key)) or ""])
        if word:
            return f"{key}: {word}"
    device = text_of(node.get("device")) or ""
    for key in _COUNTS:
        if (whole_number(node.get(key)) or 0) > 0 and not device:
            return f"{key}: {text_of(node.get(key))}"
    return _plugin_gpu(node)


def _agent_words(agents: Node) -> list[str]:
    if isinstance(agents, MappingNode):
        return [
            f"{name}={value}" if name.lower() != "queue" else value
            for name, field in agents.fields.items()
            if (value := text_of(field.value)) and value not in ("0", "false", "none")
        ]
    return [each.value.removeprefix("queue=") for each in scalars_of(agents)]


def _gpu_word(words: list[str]) -> str | None:
    for word in words:
        if _GPU.search(word.replace("_", "-")) and not _NO_GPU.search(word.replace("_", "-")):
            return word
    return None


def _plugin_gpu(node: MappingNode) -> str | None:
    plugins = node.get("plugins")
    if plugins is None:
        return None
    for each in walk(plugins):
        if not isinstance(each, MappingNode):
            continue
        for name in (*_NAMES_GPU, "gpus"):
            amount = text_of(each.get(name))
            if amount and amount not in ("0", "none"):
                return f"{name}: {amount}"
    return None


def _runner_words(runs_on: Node, job: PipelineJob) -> list[str]:
    """Labels of runners; those of a matrix if the label is its variable."""
    mapping = mapping_of(runs_on)
    if mapping is not None:
        runs_on = mapping.get("labels", "group") or runs_on
    words = []
    for label in scalars_of(runs_on):
        variable = re.fullmatch(r"\$\{\{\s*matrix\.([\w.-]+)\s*\}\}", label.value.strip())
        words += _matrix_values(job, variable.group(1)) if variable else [label.value]
    return [word for word in words if "${{" not in word]


def _matrix_values(job: PipelineJob, name: str) -> list[str]:
    strategy = mapping_of(job.node.get("strategy"))
    matrix = mapping_of(strategy.get("matrix")) if strategy else None
    if matrix is None:
        return []
    values: list[ScalarNode] = scalars_of(matrix.get(name))
    for entry in items_of(matrix.get("include")):
        values += scalars_of(entry.get(name)) if isinstance(entry, MappingNode) else []
    return [value.value for value in values]


RULES: Final = ((GPU_STEP_WITHOUT_TIMEOUT, gpu_step_without_timeout),)
