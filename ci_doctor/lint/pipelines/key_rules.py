# SPDX-License-Identifier: Apache-2.0
"""Pure. Rules about keys and values that the reader of a pipeline refuses, passes over or replaces."""

import re
from collections.abc import Container, Iterator
from typing import Final

from ci_doctor.buildkite.plugin import configuration_problem, is_our_plugin
from ci_doctor.lint.lint_rule import LintRule, Place, Violation, excerpt_of, word_set
from ci_doctor.lint.pipelines.pipeline_file import (
    BLOCK_KEYS,
    BUILDKITE_KEYS,
    COMMAND_KEYS,
    GROUP_KEYS,
    INPUT_KEYS,
    KIND_KEYS,
    PIPELINE_KEYS,
    STEP_WORDS,
    TRIGGER_KEYS,
    WAIT_KEYS,
    FileKind,
    PipelineContext,
    PipelineFile,
    PipelineStep,
    StepKind,
    buildkite,
    command_texts,
    is_buildkites,
    job_steps,
    names_its_kind,
    nearest_key,
)
from ci_doctor.model.outcome import Rule, Severity
from ci_doctor.syntax.yaml import (
    Field,
    MappingNode,
    Node,
    ScalarNode,
    SequenceNode,
    YamlProblem,
    items_of,
    mapping_of,
    scalars_of,
    walk,
    whole_number,
)

# A key of a Buildkite step that the agent does not know. Keys of GitHub are the business of actionlint.

UNKNOWN_KEY: Final = LintRule(
    rule=Rule(
        id="pipeline/unknown-key",
        severity=Severity.ERROR,
        meaning="A step has a key that Buildkite does not know and ignores, so a misspelt time limit limits nothing. actionlint checks the keys of GitHub workflows.",
        remedy="Write the key as the reference of the pipeline's steps spells it.",
    ),
    bad=(
        buildkite("steps:\n  - command: make\n    timeout_in_minute: 5\n"),
        buildkite("steps:\n  - command: make\n    artifacts_paths: '*.log'\n"),
        buildkite("steps:\n  - command: make\n    soft-fail: true\n"),
        buildkite("steps:\n  - command: make\n    dependson: build\n"),
        buildkite("steps:\n  - trigger: deploy\n    asyn: true\n"),
        buildkite("steps:\n  - command: make\n    timeout: 30\n"),
    ),
    good=(
        buildkite("steps:\n  - command: make\n    timeout_in_minutes: 5\n"),
        buildkite("common: &c {A: '1'}\nsteps:\n  - command: make\n    env: *c\n"),
        # Keys of a generator are its own business.
        buildkite("steps:\n  - command: make\n    bazel_cache: true\n"),
        buildkite(
            "steps:\n  - command: make\n    num_gpus: 2\n    working_dir: /tests\n    owner: me\n"
        ),
    ),
)

# What GitHub, GitLab and others call the keys of a Buildkite step.
_ELSEWHERE: Final = {
    "timeout": "timeout_in_minutes",
    "timeout-minutes": "timeout_in_minutes",
    "timeout_minutes": "timeout_in_minutes",
    "timeout_in_min": "timeout_in_minutes",
    "timeout_in_mins": "timeout_in_minutes",
    "timeout_in_seconds": "timeout_in_minutes",
    "time_limit": "timeout_in_minutes",
    "depends": "depends_on",
    "dependencies": "depends_on",
    "cmd": "command",
    "parallel": "parallelism",
    "needs": "depends_on",
    "environment": "env",
    "run": "command",
    "artifacts": "artifact_paths",
    "retries": "retry",
    "continue-on-error": "soft_fail",
    "allow_failure": "soft_fail",
    "queue": "agents",
}
_OF_KIND: Final = {
    StepKind.COMMAND: COMMAND_KEYS,
    StepKind.WAIT: WAIT_KEYS,
    StepKind.BLOCK: BLOCK_KEYS,
    StepKind.INPUT: INPUT_KEYS,
    StepKind.TRIGGER: TRIGGER_KEYS,
    StepKind.GROUP: GROUP_KEYS,
}


def unknown_key(pipeline: PipelineFile, _context: PipelineContext) -> Iterator[Violation]:
    """Keys of a Buildkite pipeline. Those of a generator's steps are its own."""
    if pipeline.kind is not FileKind.BUILDKITE:
        return
    root = pipeline.root
    for field in _own(root, PIPELINE_KEYS) if root else ():
        # A pipeline may hold anchors under any name; only a misspelt name is reported.
        if nearest_key(field.key.value, PIPELINE_KEYS) and field.key.value not in BUILDKITE_KEYS:
            yield _misspelt_key(
                pipeline, field, "a pipeline", PIPELINE_KEYS, "Buildkite ignores it"
            )
    for step in pipeline.steps:
        # What does not name its kind may have misspelt it.
        is_named = names_its_kind(step.node)
        known = _OF_KIND[step.kind] if is_named else BUILDKITE_KEYS
        words = f"a {step.kind} step" if is_named else "a step"
        for field in _own(step.node, known):
            # Without a likely meaning, it may be the key of a generator.
            if _meant(field.key.value, known):
                yield _misspelt_key(pipeline, field, words, known, "Buildkite ignores it")


def _meant(name: str, known: frozenset[str]) -> str | None:
    """The key that was meant: spelt nearly so, or what another CI calls it."""
    other = _ELSEWHERE.get(name)
    return other if other in known else nearest_key(name, known)


def _own(node: MappingNode, known: frozenset[str]) -> list[Field]:
    return [
        field
        for name, field in node.fields.items()
        if name not in known and not field.merged and "{" not in name and "$" not in name
    ]


def _misspelt_key(
    pipeline: PipelineFile,
    field: Field,
    where: str,
    known: frozenset[str],
    effect: str,
    severity: Severity | None = None,
) -> Violation:
    name = field.key.value
    nearest = _meant(name, known)
    return pipeline.violation(
        UNKNOWN_KEY,
        field.key,
        f"'{name}' is no key of {where}: {effect}",
        remedy=f"Write `{nearest}`." if nearest else None,
        severity=severity,
    )


# What stands in the list of steps, and is none.

UNKNOWN_STEP: Final = LintRule(
    rule=Rule(
        id="pipeline/unknown-step",
        severity=Severity.ERROR,
        meaning="The agent cannot tell what a step does: neither its `type` nor a key says so.",
        remedy="Give the step a `command`, or the key of another kind: `wait`, `block`, `input`, `trigger`, `group`.",
    ),
    bad=(
        buildkite("steps:\n  - command: make\n  - label: tests\n"),
        buildkite("steps:\n  - command: make\n  - wiat\n"),
        buildkite("steps:\n  - {}\n"),
        buildkite("steps:\n  - group: a\n    steps:\n      - command: make\n      -\n"),
        buildkite("steps:\n  - {type: comand, label: tests}\n"),
    ),
    good=(
        buildkite("steps:\n  - wait\n  - block\n  - wait: ~\n  - {type: manual}\n  - $STEP\n"),
        buildkite("steps:\n  - plugins: [docker-compose#v5.0.0]\n  - command: make\n"),
        buildkite("x: &x {command: make}\nsteps:\n  - <<: *x\n    label: tests\n"),
        # A generator may make a step of it.
        buildkite("steps:\n  - command: make\n  - {label: tests, bazel_target: all}\n"),
    ),
)


def unknown_step(pipeline: PipelineFile, _context: PipelineContext) -> Iterator[Violation]:
    """Steps without a kind, where the folder is Buildkite's: others call a command otherwise."""
    if pipeline.kind is not FileKind.BUILDKITE or not is_buildkites(pipeline.file):
        return
    visited: set[int] = set()
    groups = [step.node for step in pipeline.steps if step.kind is StepKind.GROUP]
    for holder in (pipeline.root, *groups):
        for item in items_of(holder.get("steps")) if holder else ():
            if id(item) not in visited and not _may_be_a_step(item):
                word = item.value if isinstance(item, ScalarNode) else ""
                meant = nearest_key(word, STEP_WORDS)
                remedy = f"Write `{meant}`." if meant else None
                yield pipeline.violation(UNKNOWN_STEP, item, _no_step(item), remedy=remedy)
            visited.add(id(item))


def _may_be_a_step(item: Node) -> bool:
    if isinstance(item, ScalarNode):
        return item.value in STEP_WORDS or "$" in item.value or "{" in item.value
    if isinstance(item, SequenceNode):
        return False
    if names_its_kind(item):
        return True
    others = [name for name in item.fields if name not in BUILDKITE_KEYS]
    # A misspelt kind is reported as a key; a key that means nothing to us may be a generator's.
    return any(_meant(name, KIND_KEYS) or not _meant(name, BUILDKITE_KEYS) for name in others)


def _no_step(item: Node) -> str:
    if isinstance(item, ScalarNode) and item.value not in {"", "~", "null"}:
        return f"'{excerpt_of(item.value)}' is no step that Buildkite knows"
    if isinstance(item, SequenceNode):
        return "a list is no step"
    is_empty = isinstance(item, ScalarNode) or not item.fields
    return "this step is empty" if is_empty else "neither a key nor a type says what this step does"


# Values that the reader of a pipeline refuses, or cannot mean what they say.

INVALID_VALUE: Final = LintRule(
    rule=Rule(
        id="pipeline/invalid-value",
        severity=Severity.ERROR,
        meaning="A retry waits for an exit status or a signal reason that no agent reports, so it never comes.",
        remedy="Write a value that the reference of the pipeline's steps allows.",
    ),
    bad=(
        buildkite("steps:\n  - command: make\n    retry: {automatic: [{exit_status: 300}]}\n"),
        buildkite(
            "steps:\n  - command: make\n    retry: {automatic: [{signal_reason: agent_lost}]}\n"
        ),
        buildkite("steps:\n  - command: make\n    retry: {automatic: {exit_status: -10}}\n"),
    ),
    good=(
        buildkite(
            "steps:\n  - command: make\n    retry: {automatic: [{exit_status: [-1, 255], limit: 10}]}\n"
        ),
        buildkite(
            "steps:\n  - command: make\n    retry: {automatic: [{signal_reason: agent_stop}], manual: false}\n"
        ),
        buildkite(
            "steps:\n  - command: make\n    retry: {automatic: [{signal_reason: $REASON}]}\n"
        ),
    ),
)

_REASONS: Final = word_set(
    "* none cancel agent_stop agent_refused agent_incompatible process_run_error signature_rejected stack_error"
)


def invalid_value(pipeline: PipelineFile, _context: PipelineContext) -> Iterator[Violation]:
    """Exit statuses and reasons of retries that no agent reports; a value that is filled in later is left alone."""
    visited: set[int] = set()
    for step in pipeline.commands:
        retry = mapping_of(step.node.get("retry"))
        automatic = retry.get("automatic") if retry else None
        for rule in automatic.items if isinstance(automatic, SequenceNode) else (automatic,):
            if not isinstance(rule, MappingNode) or id(rule) in visited:
                continue
            visited.add(id(rule))
            for status in scalars_of(rule.get("exit_status")):
                number = whole_number(status)
                # Buildkite accepts it, so it breaks nothing.
                if number is not None and not -1 <= number <= 255:
                    said = f"an exit status is from -1 to 255, never {number}"
                    yield pipeline.violation(INVALID_VALUE, status, said, severity=Severity.WARNING)
            for reason in scalars_of(rule.get("signal_reason")):
                if reason.value not in _REASONS and "$" not in reason.value:
                    said = f"'{reason.value}' is no signal reason of the agent"
                    yield pipeline.violation(INVALID_VALUE, reason, said)


# The keys of steps, and what depends on them.

STEP_KEY: Final = LintRule(
    rule=Rule(
        id="pipeline/step-key",
        severity=Severity.ERROR,
        meaning="Two steps have one key, and Buildkite refuses the upload; or a step depends on a key that no step has, so it never starts.",
        remedy="Give each step a key of its own, and name one that is there.",
    ),
    bad=(
        buildkite("steps:\n  - {command: make, key: a}\n  - {command: test, key: a}\n"),
        buildkite(
            "steps:\n  - {command: make, key: a}\n  - {group: b, steps: [{command: test, identifier: a}]}\n"
        ),
        buildkite("steps:\n  - {command: make, key: a}\n  - {command: test, depends_on: b}\n"),
        buildkite(
            "steps:\n  - {command: make, key: a}\n  - {command: test, depends_on: [a, {step: b}]}\n"
        ),
    ),
    good=(
        buildkite("steps:\n  - {command: make, key: a}\n  - {command: test, depends_on: [a]}\n"),
        buildkite(
            "steps:\n  - {command: make, key: a, if: build.tag}\n  - {command: test, key: a, if: '!build.tag'}\n"
        ),
        buildkite(
            "steps:\n  - {command: make, key: a-$X}\n  - {command: test, depends_on: b-$X}\n"
        ),
        buildkite("steps:\n  - {command: make, key: a}\n  - {command: test, depends_on: ~}\n"),
        buildkite(
            "steps:\n  - group: a\n    key: a\n    steps: []\n  - {wait: ~, depends_on: a}\n"
        ),
    ),
)
_BASE: Final = re.compile(r"(?:\.?buildkite/)?pipeline\.ya?ml")
_CONDITIONS: Final = ("if", "if_changed", "branches", "skip")


def step_key(pipeline: PipelineFile, _context: PipelineContext) -> Iterator[Violation]:
    """Keys that two steps have, and dependencies on no step; what is filled in later is left alone."""
    if pipeline.kind is not FileKind.BUILDKITE:
        return
    owners: dict[str, PipelineStep] = {}
    is_whole = _BASE.fullmatch(pipeline.file) is not None
    for step in pipeline.steps:
        key = step.node.get("key", "id", "identifier")
        if not isinstance(key, ScalarNode):
            continue
        is_whole = is_whole and _is_final(key)
        first = owners.setdefault(key.value, step)
        # Of two with conditions perhaps one is uploaded.
        is_sure = not any(each.node.get(*_CONDITIONS) for each in (first, step))
        if first is not step and is_sure and _is_final(key):
            said = f"{step.name} has the key '{key.value}' of {first.name}"
            yield pipeline.violation(STEP_KEY, key, said, related=(first.node,))
    if is_whole:
        yield from _missing_steps(pipeline, owners)


def _missing_steps(pipeline: PipelineFile, keys: Container[str]) -> Iterator[Violation]:
    """An error only in a pipeline that uploads no more: a later upload may hold the step."""
    uploads = any(
        step.node.get("plugins") or any("upload" in text.value for text in command_texts(step))
        for step in pipeline.commands
    )
    for step in pipeline.steps:
        written = step.node.get("depends_on")
        for each in items_of(written) or (written,):
            needed = each.get("step") if isinstance(each, MappingNode) else each
            if isinstance(needed, ScalarNode) and needed.value not in keys and _is_final(needed):
                said = f"{step.name} depends on '{needed.value}', and no step has that key"
                severity = Severity.WARNING if uploads else None
                yield pipeline.violation(STEP_KEY, needed, said, severity=severity)


def _is_final(name: ScalarNode) -> bool:
    """Whether nothing is filled in later, and it is a name at all."""
    return name.value not in {"", "~", "null"} and "$" not in name.value and "{" not in name.value


# An option of ci-doctor's plugin for which the job ends before its command.

PLUGIN_OPTION: Final = LintRule(
    rule=Rule(
        id="pipeline/plugin-option",
        severity=Severity.ERROR,
        meaning="The ci-doctor plugin does not know this option, or not with this value. The job ends with 2 before its command.",
        remedy="Write the option as the plugin's README does.",
    ),
    bad=(
        buildkite(
            "steps:\n  - command: make\n    plugins: [{./buildkite_plugins/ci-doctor: {exit-code: true}}]\n"
        ),
        buildkite(
            "steps:\n  - command: make\n    plugins:\n      - ./ci-doctor:\n          determinism: hard\n"
        ),
        buildkite("steps:\n  - command: make\n    plugins: {./ci-doctor: {cache: {famlies: a}}}\n"),
        buildkite("steps:\n  - command: make\n    plugins: [{./ci-doctor: {diagnose: }}]\n"),
    ),
    good=(
        buildkite(
            "steps:\n  - command: make\n    plugins: [{./ci-doctor: {exit-codes: true, diagnose: [a, b]}}]\n"
        ),
        buildkite("steps:\n  - command: make\n    plugins: [./ci-doctor]\n"),
        buildkite(
            "steps:\n  - command: make\n    plugins: [{./ci-doctor: {exit-codes: $MAPPED, determinism: off}}]\n"
        ),
        buildkite(
            "steps:\n  - command: make\n    plugins: [{docker#v5.13.0: {exit-code: true}}]\n"
        ),
    ),
)


def plugin_option(pipeline: PipelineFile, _context: PipelineContext) -> Iterator[Violation]:
    """The configurations of the plugin, each once; a value that is filled in later is left alone."""
    visited: set[int] = set()
    for step in pipeline.commands:
        plugins = step.node.get("plugins")
        for each in plugins.items if isinstance(plugins, SequenceNode) else [plugins]:
            for field in each.fields.values() if isinstance(each, MappingNode) else ():
                if not is_our_plugin(field.key.value) or id(field.value) in visited:
                    continue
                visited.add(id(field.value))
                yield from _wrong_options(pipeline, field.value)


def _wrong_options(pipeline: PipelineFile, configuration: Node) -> Iterator[Violation]:
    if not isinstance(configuration, MappingNode):
        return
    for name, option in configuration.fields.items():
        written = [each.value for each in walk(option.value) if isinstance(each, ScalarNode)]
        is_late = any("$" in text or "{{" in text for text in (name, *written))
        problem = None if is_late else configuration_problem({name: _value(option.value)})
        if problem is None:
            continue
        yield pipeline.violation(
            PLUGIN_OPTION,
            option.key,
            f"{problem.message}: the job ends with 2 before its command",
            remedy=problem.hint and problem.hint[0].upper() + problem.hint[1:],
        )


def _value(node: Node) -> object:
    """The value as the agent reads it."""
    if isinstance(node, MappingNode):
        return {name: _value(field.value) for name, field in node.fields.items()}
    if isinstance(node, SequenceNode):
        return [_value(each) for each in node.items]
    if node.style:
        return node.value
    words = {"true": True, "false": False, "null": None, "~": None, "": None}
    return words.get(node.value.lower(), node.value)


# A file of CI that is no YAML: the upload or the workflow fails before its first step.

UNPARSABLE_YAML: Final = LintRule(
    rule=Rule(
        id="pipeline/unparsable-yaml",
        severity=Severity.ERROR,
        meaning="The file is no YAML, so no step of it can run.",
        remedy="Mend the line, or the quotes and brackets before it.",
    ),
    bad=(
        buildkite("steps:\n\t- command: make\n"),
        buildkite("steps:\n  - label: 'tests\n    command: make\n"),
        buildkite("steps:\n  - command: make\n   label: tests\n"),
        buildkite("steps:\n  - command: echo a: b\n"),
        buildkite("steps:\n  - <<: *common\n    command: make\n"),
    ),
    good=(
        buildkite("steps:\n  - command: make\n"),
        buildkite('steps:\n  - command: "echo a: b"\n'),
        buildkite("common: &common {env: {A: '1'}}\nsteps:\n  - <<: *common\n    command: make\n"),
        # The source of a template engine is YAML only once it is rendered.
        buildkite("steps:\n{% for each in steps %}\n  - command: {{ each }}\n{% endfor %}\n"),
        job_steps("- run: printf 'a\\tb'\n"),
    ),
)


def unparsable_yaml(pipeline: PipelineFile, problem: YamlProblem) -> Iterator[Violation]:
    """The place at which the parser stopped."""
    line = min(problem.line, len(pipeline.lines))
    yield Violation(
        rule=UNPARSABLE_YAML,
        place=Place(file=pipeline.file, line=line, end_line=line),
        summary=f"the file is no YAML: {problem.reason}",
        excerpt=excerpt_of(pipeline.lines[line - 1]),
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


RULES: Final = (
    (UNKNOWN_KEY, unknown_key),
    (UNKNOWN_STEP, unknown_step),
    (INVALID_VALUE, invalid_value),
    (STEP_KEY, step_key),
    (PLUGIN_OPTION, plugin_option),
    (LOST_AT_UPLOAD, lost_at_upload),
)
