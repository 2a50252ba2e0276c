# SPDX-License-Identifier: Apache-2.0
"""Pure. Rules about the time that a step may take."""

import math
import re
from collections.abc import Iterator
from itertools import islice
from typing import Final

from msgspec import Struct

from ci_doctor.lint.lint_rule import LintRule, Place, Violation, excerpt_of
from ci_doctor.lint.pipelines.pipeline_file import (
    FileKind,
    PipelineContext,
    PipelineFile,
    PipelineJob,
    PipelineStep,
    buildkite,
    command_texts,
    job_steps,
    steps_with_scripts,
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
    scalar_lines,
    scalars_of,
    text_of,
    walk,
    whole_number,
)

_TIMEOUT = re.compile(
    r"(?<![\w./$-])g?timeout(?:\s+(?:-[ks]\s+\S+|--?[a-z-]+(?:=\S+)?))*\s+(\d+(?:\.\d+)?)([smhd]?)(?=\s+\S)"
)
_SLEEP = re.compile(r"(?<![\w.-])sleep\s+(\d+(?:\.\d+)?)([smhd]?)(?![\w.$])")
_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_FOR_IN = re.compile(r"\bfor\s+(\w+)\s+in\s+([^;\n]*?)\s*(?:;|\n)\s*do\b")
_FOR_C = re.compile(r"\bfor\s*\(\(\s*(\w+)\s*=\s*(\d+)\s*;\s*\w+\s*(<=?)\s*(\d+)\s*;")
_WHILE = re.compile(
    r"\b(?:while|until)\s+\[\[?\s+\"?\$\{?(\w+)\}?\"?\s+-(lt|le|ge|gt)\s+(\d+)\s+\]\]?"
)
_RANGE = re.compile(r"\{(\d+)\.\.(\d+)\}")
_SEQ = re.compile(r"\$\(seq\s+(?:(\d+)\s+)?(\d+)\)|`seq\s+(?:(\d+)\s+)?(\d+)`")
_WORD = re.compile(r"(?:^|(?<=[\s;&|(]))(do|done)(?=[\s;&|)]|$)")
_ATTEMPT = re.compile(r"tr(?:y|ies)|attempt|retr", re.IGNORECASE)
_QUOTED_OUTPUT = re.compile(r"\s*(?:echo|printf|#)")
_MOST_PASSES = 100_000
# The end of each is looked for, so a script of nothing but beginnings would take long.
_MOST_LOOPS = 100


class InnerTime(Struct, frozen=True, kw_only=True):
    """What one construct may take. seconds: in the worst case. line: 0-based, in the script."""

    seconds: float
    words: str
    line: int


def inner_times(script: str) -> list[InnerTime]:
    """The constructs of a script that bound themselves, in the order of its lines."""
    times = [*_loops(script), *_single(script)]
    return sorted(times, key=lambda each: each.line)


def _single(script: str) -> Iterator[InnerTime]:
    for number, line in enumerate(script.split("\n")):
        if len(line) > 5000 or _QUOTED_OUTPUT.match(line):
            continue
        for match in _TIMEOUT.finditer(line):
            yield InnerTime(seconds=_seconds(match), words=f"`{match.group()}`", line=number)


def _seconds(match: re.Match[str]) -> float:
    return float(match[1]) * _UNITS[match[2]]


def _loops(script: str) -> Iterator[InnerTime]:
    if "timeout" not in script or "done" not in script:
        return
    for name, passes, start in islice(_heads(script), _MOST_LOOPS):
        body = _body(script, start)
        if body is None or not (2 <= passes <= _MOST_PASSES):
            continue
        limits = [_seconds(match) for match in _TIMEOUT.finditer(body)]
        retries = _ATTEMPT.search(name) or re.search(r"\b(?:break|exit 0|return 0)\b", body)
        if not limits or not retries:
            continue
        pauses = sum(_seconds(match) for match in _SLEEP.finditer(body))
        each = sum(limits) + pauses
        yield InnerTime(
            seconds=passes * each,
            words=f"{passes} tries of up to {minutes(each)}",
            line=script.count("\n", 0, start),
        )


def _heads(script: str) -> Iterator[tuple[str, int, int]]:
    """The loops with a known number of passes: the variable, the passes, where the head ends."""
    for match in _FOR_IN.finditer(script):
        passes = _count(match[2])
        if passes is not None:
            yield match[1], passes, match.end()
    for match in _FOR_C.finditer(script):
        yield match[1], int(match[4]) - int(match[2]) + (match[3] == "<="), match.end()
    for match in _WHILE.finditer(script):
        first = re.search(rf"(?m)^\s*(?:local\s+)?{match[1]}=(\d+)\b", script[: match.start()])
        begin = int(first[1]) if first else 0
        inclusive = match[2] in ("le", "gt")
        yield match[1], int(match[3]) - begin + inclusive, match.end()


def _count(items: str) -> int | None:
    sequence = _SEQ.fullmatch(items.strip())
    if sequence:
        first, last = sequence[1] or sequence[3] or "1", sequence[2] or sequence[4]
        return int(last) - int(first) + 1
    span = _RANGE.fullmatch(items.strip())
    if span:
        return abs(int(span[2]) - int(span[1])) + 1
    words = items.split()
    return len(words) if words and all(word.isdigit() for word in words) else None


def _body(script: str, start: int) -> str | None:
    """The text up to the `done` of a loop whose head ends at `start`; the head may hold its `do`."""
    depth = 1 if script[:start].endswith("do") else 0
    for match in _WORD.finditer(script, start):
        depth += 1 if match[1] == "do" else -1
        if depth == 0:
            return script[start : match.start()]
    return None


def minutes(seconds: float) -> str:
    """Seconds as minutes, for a sentence."""
    amount = seconds / 60
    text = f"{amount:.0f}" if math.isclose(amount, round(amount)) else f"{amount:.1f}"
    return f"{text} min"


# Tries and time limits inside a step that do not fit into the time limit of the step.

RETRIES_EXCEED_TIMEOUT: Final = LintRule(
    rule=Rule(
        id="pipeline/retries-exceed-timeout",
        severity=Severity.WARNING,
        meaning="The tries or time limits inside a step take longer than the step may. The agent ends the step first: the last tries never run, and no report says which one failed.",
        remedy="Give the step more time, or the tries less, with some minutes left for what comes before and after them.",
    ),
    bad=(
        buildkite(
            """
            steps:
              - timeout_in_minutes: 30
                command: |
                  for i in 1 2 3; do
                    timeout 15m ./run_tests.sh && break
                  done
            """
        ),
        buildkite(
            """
            steps:
              - timeout_in_minutes: 30
                command: |
                  for attempt in $(seq 1 3); do
                    if timeout -k 10 900 ./run_tests.sh; then
                      exit 0
                    fi
                    sleep 30
                  done
                  exit 1
            """
        ),
        buildkite(
            """
            steps:
              - timeout_in_minutes: 20
                command: |
                  tries=0
                  until [ $tries -ge 3 ]; do
                    timeout 600 make test && break
                    tries=$((tries + 1))
                  done
            """
        ),
        buildkite("steps:\n  - timeout_in_minutes: 30\n    command: timeout 1h pytest tests\n"),
        job_steps(
            "- timeout-minutes: 5\n  run: for ((i=0; i<3; i++)); do timeout 120 make && break; done\n"
        ),
    ),
    good=(
        buildkite(
            """
            steps:
              - timeout_in_minutes: 60
                command: |
                  for i in 1 2 3; do
                    timeout 15m ./run_tests.sh && break
                  done
            """
        ),
        # No tries: each pass is another test, and few of them take their limit.
        buildkite(
            """
            steps:
              - timeout_in_minutes: 30
                command: |
                  for i in 1 2 3; do
                    timeout 15m ./run_tests.sh $i
                  done
            """
        ),
        buildkite("steps:\n  - timeout_in_minutes: 30\n    command: timeout 20m pytest tests\n"),
        buildkite("steps:\n  - timeout_in_minutes: 30\n    command: ./wait.sh --timeout 3600 x\n"),
    ),
)


def retries_exceed_timeout(
    pipeline: PipelineFile, _context: PipelineContext
) -> Iterator[Violation]:
    """Per step: the time limits and the tries in its scripts."""
    for step, texts in steps_with_scripts(pipeline):
        limit = _limit(step)
        if limit is None or (step.mirrored and not _own_limit(step.node)):
            continue
        for text in texts:
            yield from _script(pipeline, step, text, limit)


def _limit(step: PipelineStep) -> float | None:
    """Seconds that the step may take."""
    nodes = [step.node, step.job.node] if step.job else [step.node]
    limits = []
    for node in nodes:
        for key in ("timeout_in_minutes", "timeout-minutes"):
            minutes_of_key = whole_number(node.get(key))
            if minutes_of_key:
                limits.append(60.0 * minutes_of_key)
    return min(limits, default=None)


def _own_limit(node: MappingNode) -> bool:
    field = node.fields.get("timeout_in_minutes")
    return field is not None and not field.merged


def _script(
    pipeline: PipelineFile,
    step: PipelineStep,
    text: ScalarNode,
    limit: float,
) -> Iterator[Violation]:
    if "timeout" not in text.value:
        return
    too_long = [each for each in inner_times(text.value) if each.seconds > limit]
    if not too_long:
        return
    lines = scalar_lines(text, pipeline.text)
    reported: set[int] = set()
    for each in too_long:
        if each.line in reported:
            continue
        reported.add(each.line)
        line = lines[each.line]
        yield Violation(
            rule=RETRIES_EXCEED_TIMEOUT,
            place=Place(file=pipeline.file, line=line, end_line=line),
            summary=f"{each.words} may take {minutes(each.seconds)}, and {step.name} has {minutes(limit)}",
            excerpt=excerpt_of(pipeline.lines[line - 1]),
        )


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


RULES: Final = (
    (RETRIES_EXCEED_TIMEOUT, retries_exceed_timeout),
    (GPU_STEP_WITHOUT_TIMEOUT, gpu_step_without_timeout),
)
