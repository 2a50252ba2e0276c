# SPDX-License-Identifier: Apache-2.0
"""Pure. Rules about the time that a step may take, its retries, and failures that it may have."""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from ci_doctor.buildkite.plugin import is_our_plugin
from ci_doctor.lint.lint_rule import LintRule, Violation
from ci_doctor.lint.pipelines.pipeline_file import (
    FileKind,
    PipelineContext,
    PipelineFile,
    PipelineJob,
    PipelineStep,
    StepKind,
    buildkite,
    command_texts,
    workflow,
)
from ci_doctor.model.outcome import Rule, Severity
from ci_doctor.syntax.yaml import (
    MappingNode,
    Node,
    ScalarNode,
    SequenceNode,
    is_true,
    items_of,
    mapping_of,
    scalars_of,
    text_of,
    walk,
    whole_number,
)

# Reasons by which Buildkite names a job whose agent was stopped, refused it or was never there.
AGENT_REASONS: Final = frozenset(
    {"agent_stop", "agent_refused", "agent_incompatible", "stack_error", "process_run_error"}
)


class StepRetry(Struct, frozen=True, eq=False, kw_only=True):
    """One condition.

    any_status: it matches 1 to 255, by `"*"` or because it names no status. named: by `"*"`.
    limit: None if it is left to its default, 2.
    """

    place: Node
    statuses: tuple[int, ...] = ()
    any_status: bool = False
    named: bool = False
    reason: str | None = None
    has_signal: bool = False
    limit: int | None = None


def retry_rules(step: MappingNode) -> list[StepRetry]:
    """The rules of `retry.automatic`; one for `automatic: true`."""
    retry = mapping_of(step.get("retry"))
    automatic = retry.get("automatic") if retry else None
    if is_true(automatic) and automatic is not None:
        return [StepRetry(place=automatic, any_status=True)]
    listed = automatic.items if isinstance(automatic, SequenceNode) else [automatic]
    return [_rule(each) for each in listed if isinstance(each, MappingNode)]


def _rule(node: MappingNode) -> StepRetry:
    status = node.get("exit_status")
    place: Node = status if isinstance(status, ScalarNode) else node
    reasons = [each.value for each in scalars_of(node.get("signal_reason"))]
    numbers = [whole_number(each) for each in scalars_of(status)]
    return StepRetry(
        place=place,
        statuses=tuple(each for each in numbers if each is not None),
        any_status=text_of(status) == "*"
        or (status is None and not reasons and node.get("signal") is None),
        named=text_of(status) == "*",
        reason=next(
            (each for each in reasons if each in AGENT_REASONS), reasons[0] if reasons else None
        ),
        has_signal=node.get("signal") is not None,
        limit=whole_number(node.get("limit")),
    )


# `exit_status: "*"` covers 1 to 255, and so not the -1 of an agent that was lost.

LOST_AGENT_NOT_RETRIED: Final = LintRule(
    rule=Rule(
        id="pipeline/lost-agent-not-retried",
        severity=Severity.WARNING,
        meaning='A step is retried on `exit_status: "*"`, which matches 1 to 255. A lost agent has the status -1, so the one failure that a retry is best for is not retried.',
        remedy="Add a rule with `exit_status: -1`, and name the statuses of your own that another run helps.",
    ),
    bad=(
        buildkite(
            """
            steps:
              - command: make
                retry:
                  automatic:
                    - exit_status: "*"
                      limit: 2
            """
        ),
        buildkite(
            "steps:\n  - command: make\n    retry: {automatic: {exit_status: '*', limit: 1}}\n"
        ),
        buildkite(
            """
            steps:
              - command: make
                retry:
                  automatic:
                    - {exit_status: 75, limit: 2}
                    - {exit_status: "*", limit: 1}
            """
        ),
        buildkite(
            """
            retried: &retried
              automatic: [{exit_status: "*"}]
            steps:
              - command: make
                retry: *retried
            """
        ),
        buildkite(
            "steps:\n  - command: make\n    retry:\n      automatic:\n        - exit_status: '*'\n          signal: SIGKILL\n"
        ),
    ),
    good=(
        buildkite(
            """
            steps:
              - command: make
                retry:
                  automatic:
                    - {exit_status: -1, limit: 2}
                    - {exit_status: "*", limit: 1}
            """
        ),
        buildkite(
            "steps:\n  - command: make\n    retry: {automatic: [{exit_status: [-1, 255]}, {exit_status: '*'}]}\n"
        ),
        buildkite(
            "steps:\n  - command: make\n    retry: {automatic: {exit_status: '*', limit: 0}}\n"
        ),
        buildkite(
            "steps:\n  - command: make\n    retry: {automatic: {signal_reason: agent_stop}}\n"
        ),
        buildkite("steps:\n  - command: make\n    retry: {automatic: {exit_status: 75}}\n"),
    ),
)


def lost_agent_not_retried(
    pipeline: PipelineFile, _context: PipelineContext
) -> Iterator[Violation]:
    """The rule with `"*"`, if no rule of the step names what a lost agent leaves."""
    visited: set[int] = set()
    for step in pipeline.commands:
        rules = retry_rules(step.node)
        if not rules or any(
            (-1 in rule.statuses or rule.reason in AGENT_REASONS) for rule in rules
        ):
            continue
        for rule in rules:
            # `signal_reason: none` asks for plain failures, on purpose.
            if (
                rule.named
                and rule.limit != 0
                and rule.reason in (None, "*")
                and id(rule.place) not in visited
            ):
                visited.add(id(rule.place))
                yield pipeline.violation(
                    LOST_AGENT_NOT_RETRIED,
                    rule.place,
                    f"{step.name} is retried on any status from 1 to 255, and not when its agent is lost (-1)",
                    remedy="Add `- {exit_status: -1, signal_reason: none, limit: 2}` before this rule.",
                )
                break


# A retry that also retries a step that ran out of time.

RETRIED_TIMEOUT: Final = LintRule(
    rule=Rule(
        id="pipeline/retried-timeout",
        severity=Severity.WARNING,
        meaning="A retry without `signal_reason` also matches a step that ran out of time. A hang then holds its agent again, for the whole time limit, as often as the rule allows.",
        remedy="Add `signal_reason: none` to the rule, or `- {signal_reason: cancel, limit: 0}` as the first one.",
    ),
    bad=(
        buildkite(
            """
            steps:
              - command: make
                timeout_in_minutes: 60
                retry:
                  automatic:
                    - {exit_status: -1, limit: 1}
                    - {exit_status: "*", limit: 3}
            """
        ),
        buildkite(
            "steps:\n  - command: make\n    timeout_in_minutes: 60\n    retry: {automatic: true}\n"
        ),
        buildkite(
            "steps:\n  - command: make\n    timeout_in_minutes: 60\n    retry: {automatic: [{limit: 2}]}\n"
        ),
        buildkite(
            "steps:\n  - command: make\n    timeout_in_minutes: 60\n    retry: {automatic: [{exit_status: -1}]}\n"
        ),
        buildkite(
            "steps:\n  - command: make\n    timeout_in_minutes: 60\n    retry: {automatic: [{exit_status: [75, 255]}]}\n"
        ),
    ),
    good=(
        buildkite(
            """
            steps:
              - command: make
                timeout_in_minutes: 60
                retry:
                  automatic:
                    - {exit_status: -1, signal_reason: none, limit: 1}
                    - {exit_status: "*", signal_reason: none, limit: 3}
            """
        ),
        buildkite(
            """
            steps:
              - command: make
                timeout_in_minutes: 60
                retry:
                  automatic:
                    - {signal_reason: cancel, limit: 0}
                    - {exit_status: "*", limit: 3}
            """
        ),
        # Nothing ends this step for its time.
        buildkite("steps:\n  - command: make\n    retry: {automatic: true}\n"),
        buildkite(
            "steps:\n  - command: make\n    timeout_in_minutes: 60\n    retry: {automatic: {exit_status: 75}}\n"
        ),
    ),
)


def retried_timeout(pipeline: PipelineFile, _context: PipelineContext) -> Iterator[Violation]:
    """The first rule of each step that a time-out matches."""
    visited: set[int] = set()
    for step in pipeline.commands:
        minutes = text_of(step.node.get("timeout_in_minutes"))
        if minutes is None:
            continue
        for rule in retry_rules(step.node):
            if rule.reason == "cancel" and rule.limit == 0:
                break
            if _matches_timeout(rule) and id(rule.place) not in visited:
                visited.add(id(rule.place))
                limit = 2 if rule.limit is None else rule.limit
                times = "once" if limit == 1 else f"{limit} times"
                yield pipeline.violation(
                    RETRIED_TIMEOUT,
                    rule.place,
                    f"{step.name} is started again, up to {times}, after it ran out of its {minutes} minutes",
                    # A narrow rule is aimed at lost agents, and retries a time-out beside that.
                    severity=None if rule.any_status else Severity.NOTE,
                )
                break


def _matches_timeout(rule: StepRetry) -> bool:
    if rule.limit == 0 or rule.reason not in (None, "*", "cancel"):
        return False
    return rule.any_status or -1 in rule.statuses or 255 in rule.statuses


# A retry of the status by which ci-doctor says that the change is to blame.

RETRIED_VERDICT: Final = LintRule(
    rule=Rule(
        id="pipeline/retried-verdict",
        severity=Severity.WARNING,
        meaning="ci-doctor ends with 1 if the change is to blame. Retried until it is green, the step lets an intermittent bug through.",
        remedy="Retry 75 alone, `- {exit_status: 75, limit: 2}`, and lost agents.",
    ),
    bad=(
        buildkite(
            "steps:\n  - command: ci-doctor correctness\n    retry: {automatic: [{exit_status: 1, limit: 3}]}\n"
        ),
        buildkite("steps:\n  - command: ci-doctor correctness\n    retry: {automatic: true}\n"),
        buildkite(
            "steps:\n  - commands: [make, ci-doctor pytest -- tests]\n    retry: {automatic: [{exit_status: 75}, {exit_status: '*', signal_reason: none}]}\n"
        ),
        buildkite(
            "steps:\n  - command: make\n    plugins: [{./ci-doctor: {exit-codes: true}}]\n    retry: {automatic: {exit_status: [1, 75]}}\n"
        ),
    ),
    good=(
        buildkite(
            "steps:\n  - command: ci-doctor correctness\n    retry: {automatic: [{exit_status: 75}]}\n"
        ),
        buildkite(
            "steps:\n  - command: ci-doctor correctness\n    retry: {automatic: [{exit_status: 1, limit: 0}, {exit_status: -1}, {exit_status: '*'}]}\n"
        ),
        buildkite(
            "steps:\n  - command: ci-doctor doctor\n    retry: {automatic: [{exit_status: 1}]}\n"
        ),
        buildkite(
            "steps:\n  - command: make\n    plugins: [{./ci-doctor: {diagnose: a.log}}]\n    retry: {automatic: {exit_status: 1}}\n"
        ),
    ),
)

_JUDGES = re.compile(
    r"\bci[-_]doctor(?:\s+-\S+)*\s+(?:correctness|compare|replay|pytest|restart-check|import-race)\b"
)
_SCRIPT = re.compile(r"[\w./-]{1,200}\.(?:sh|bash)\b")


def retried_verdict(pipeline: PipelineFile, context: PipelineContext) -> Iterator[Violation]:
    """The first rule of each step that retries 1, if that is the verdict of a ci-doctor."""
    visited: set[int] = set()
    for step in pipeline.commands:
        for rule in retry_rules(step.node):
            if not (rule.any_status or 1 in rule.statuses) or rule.has_signal:
                continue
            if rule.reason not in (None, "*", "none"):
                continue
            if rule.limit != 0 and id(rule.place) not in visited and _judges(step, context):
                visited.add(id(rule.place))
                yield pipeline.violation(
                    RETRIED_VERDICT,
                    rule.place,
                    f"{step.name} is started again after a 1, by which ci-doctor blames the change",
                )
            break


def _judges(step: PipelineStep, context: PipelineContext) -> bool:
    """Whether a command of the step, a script that it names, or the plugin ends with a verdict."""
    texts = [each.value for each in command_texts(step)]
    scripts = [context.read(name.removeprefix("./")) for name in _SCRIPT.findall(" ".join(texts))]
    if any(_JUDGES.search(text) for text in (*texts, *scripts) if text):
        return True
    plugins = step.node.get("plugins")
    return any(
        is_our_plugin(name) and is_true(options.get("exit-codes"))
        for each in (walk(plugins) if plugins is not None else ())
        if isinstance(each, MappingNode)
        for name, field in each.fields.items()
        if (options := mapping_of(field.value)) is not None
    )


# A step whose failure, of whatever kind, never fails the build.

SOFT_FAIL: Final = LintRule(
    rule=Rule(
        id="pipeline/soft-fail",
        severity=Severity.WARNING,
        meaning="Every failure of this step leaves the build green: a regression, a broken environment and a lost agent alike.",
        remedy="Let only the status pass that may: `soft_fail: [{exit_status: 85}]`, which ci-doctor uses for a difference that the environment makes on its own.",
    ),
    bad=(
        buildkite("steps:\n  - command: pytest tests\n    soft_fail: true\n"),
        buildkite("steps:\n  - command: pytest tests\n    soft_fail:\n      - exit_status: '*'\n"),
        buildkite("steps:\n  - commands: [cd tests, ./run_tests.sh]\n    soft_fail: True\n"),
        buildkite("s: &s {soft_fail: true}\nsteps:\n  - command: pytest tests\n    <<: *s\n"),
        buildkite("steps:\n  - command: pytest tests\n    num_gpus: 2\n    soft_fail: true\n"),
        workflow("runs-on: ubuntu-24.04\ncontinue-on-error: true\nsteps:\n- run: pytest tests\n"),
    ),
    good=(
        buildkite("steps:\n  - command: pytest tests\n    soft_fail: [{exit_status: 85}]\n"),
        buildkite("steps:\n  - command: pytest tests\n    soft_fail: false\n"),
        # Another step reads how this one ended.
        buildkite(
            """
            steps:
              - key: accuracy
                command: pytest tests
                soft_fail: true
              - depends_on: accuracy
                command: ./judge.sh $(buildkite-agent step get outcome --step accuracy)
            """
        ),
        workflow(
            "runs-on: ubuntu-24.04\ncontinue-on-error: ${{ matrix.nightly }}\nsteps:\n- run: pytest tests\n"
        ),
    ),
)

_TESTS = re.compile(
    r"\b(?:pytest|unittest|tox|nox|ctest|go test|cargo test|bats|lm_eval|jest|vitest)\b"
    r"|\btests?[/_.-]|[/_-]tests?\b|\b(?:make|npm|yarn|pnpm)(?: run)? [\w-]*test|\bcheck[/_.-]|\beval\b|\bverify",
    re.IGNORECASE,
)

_RESULT = re.compile(r"\bneeds\.([\w-]+)\.(?:result|outputs)\b")
_NAME = re.compile(r"[^\s\"'=;&|()]{3,200}")


def soft_fail(pipeline: PipelineFile, _context: PipelineContext) -> Iterator[Violation]:
    """Steps of Buildkite and jobs of GitHub; a note where nothing looks like a test."""
    if pipeline.kind is FileKind.WORKFLOW:
        yield from _jobs(pipeline)
        return
    named = _names_in_commands(pipeline)
    visited: set[int] = set()
    for step in pipeline.steps:
        node = step.node.get("soft_fail")
        if (
            step.kind not in (StepKind.COMMAND, StepKind.TRIGGER)
            or node is None
            or id(node) in visited
        ):
            continue
        if _softens_all(node) and not _outcome_is_read(named, step):
            visited.add(id(node))
            yield pipeline.violation(
                SOFT_FAIL,
                node,
                f"no failure of {step.name} fails the build",
                severity=None if _tests(step) else Severity.NOTE,
            )


def _softens_all(node: Node) -> bool:
    if is_true(node):
        return True
    listed = [node] if isinstance(node, MappingNode) else items_of(node)
    return any(
        isinstance(each, MappingNode) and text_of(each.get("exit_status")) == "*" for each in listed
    )


def _tests(step: PipelineStep) -> bool:
    return any(_TESTS.search(command.value) for command in command_texts(step))


def _names_in_commands(pipeline: PipelineFile) -> Counter[str]:
    """In how many steps' commands each word stands, if it may be a key."""
    counts: Counter[str] = Counter()
    if not any(step.node.get("soft_fail") is not None for step in pipeline.steps):
        return counts
    for step in pipeline.commands:
        counts.update({word for text in command_texts(step) for word in _NAME.findall(text.value)})
    return counts


def _outcome_is_read(named: Counter[str], step: PipelineStep) -> bool:
    """Whether a command of another step names this step's key."""
    key = text_of(step.node.get("key", "id", "identifier"))
    if not key or len(key) < 3:
        return False
    own = any(key in _NAME.findall(command.value) for command in command_texts(step))
    return named[key] > own


def _jobs(pipeline: PipelineFile) -> Iterator[Violation]:
    read = set(_RESULT.findall(pipeline.text))
    for job in pipeline.jobs:
        node = job.node.get("continue-on-error")
        if not isinstance(node, ScalarNode) or not is_true(node) or job.id in read:
            continue
        tests = any(_tests(step) for step in pipeline.job_steps.get(job.id, ()))
        yield pipeline.violation(
            SOFT_FAIL,
            node,
            f"no failure of the job '{job.id}' fails the workflow",
            remedy="Remove it, or read the job's result in a later job.",
            severity=None if tests else Severity.NOTE,
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


RULES: Final = (
    (LOST_AGENT_NOT_RETRIED, lost_agent_not_retried),
    (RETRIED_TIMEOUT, retried_timeout),
    (RETRIED_VERDICT, retried_verdict),
    (SOFT_FAIL, soft_fail),
    (GPU_STEP_WITHOUT_TIMEOUT, gpu_step_without_timeout),
)
