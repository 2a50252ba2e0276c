# SPDX-License-Identifier: Apache-2.0
"""Pure. Rules about keys and values that the reader of a pipeline refuses or passes over."""

from collections import Counter
from collections.abc import Iterator
from itertools import chain
from typing import Final

from ci_doctor.lint.lint_rule import LintRule, Place, Violation, excerpt_of, word_set
from ci_doctor.lint.pipelines.pipeline_file import (
    BLOCK_KEYS,
    BUILDKITE_KEYS,
    COMMAND_KEYS,
    GENERATOR_KEYS,
    GROUP_KEYS,
    INPUT_KEYS,
    PIPELINE_KEYS,
    TRIGGER_KEYS,
    WAIT_KEYS,
    FileKind,
    PipelineContext,
    PipelineFile,
    PipelineStep,
    StepKind,
    buildkite,
    job_steps,
    nearest_key,
    workflow,
)
from ci_doctor.model.finding import Rule, Severity
from ci_doctor.syntax.yaml import (
    Field,
    MappingNode,
    Node,
    SequenceNode,
    YamlProblem,
    items_of,
    mapping_of,
    scalars_of,
    text_of,
    walk,
    whole_number,
)

DUPLICATE_KEY: Final = LintRule(
    rule=Rule(
        id="pipeline/duplicate-key",
        severity=Severity.ERROR,
        meaning="A key stands twice in one mapping. Some readers refuse the file, others drop the first value without a word.",
        remedy="Keep one of the two, or merge their values.",
    ),
    bad=(
        buildkite(
            """
            steps:
              - label: tests
                command: make test
                command: make lint
            """
        ),
        buildkite("env:\n  A: '1'\n  A: '2'\nsteps:\n  - command: make\n"),
        buildkite("steps:\n  - {command: make, timeout_in_minutes: 5, timeout_in_minutes: 50}\n"),
        buildkite('steps:\n  - command: make\n    "command": make all\n'),
        job_steps("- run: make\n  env:\n    CI: '1'\n  env:\n    MODE: fast\n"),
        workflow("runs-on: ubuntu-24.04\nsteps:\n- run: make\nruns-on: ubuntu-22.04\n"),
    ),
    good=(
        buildkite("steps:\n  - command: [make test, make lint]\n"),
        buildkite("x: &x {A: '1'}\nenv:\n  <<: *x\n  A: '2'\nsteps:\n  - command: make\n"),
        buildkite("steps:\n  - command: make\n  - command: make\n"),
    ),
)


def duplicate_key(pipeline: PipelineFile, _context: PipelineContext) -> Iterator[Violation]:
    """Each key that stands again, at its second place."""
    for document in pipeline.documents:
        for node in walk(document):
            if isinstance(node, MappingNode):
                for first, again in node.repeated:
                    yield _hidden_value(pipeline, first, again)


def _hidden_value(pipeline: PipelineFile, first: Field, again: Field) -> Violation:
    name = again.key.value
    same = text_of(first.value) is not None and text_of(first.value) == text_of(again.value)
    ending = "with the same value" if same else f"and hides the value of line {first.key.line}"
    return pipeline.violation(
        DUPLICATE_KEY,
        again.key,
        f"the key '{name}' stands again in this mapping, {ending}",
        severity=Severity.WARNING if same else None,
        related=(first.key,),
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
        buildkite("steps:\n  - {commands: [make], num_gpus: 2, soruce_file_dependencies: [a]}\n"),
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
_SHORT, _LONG, _MANY = 5, 8, 5
_OF_KIND: Final = {
    StepKind.COMMAND: COMMAND_KEYS,
    StepKind.WAIT: WAIT_KEYS,
    StepKind.BLOCK: BLOCK_KEYS,
    StepKind.INPUT: INPUT_KEYS,
    StepKind.TRIGGER: TRIGGER_KEYS,
    StepKind.GROUP: GROUP_KEYS,
}


def unknown_key(pipeline: PipelineFile, _context: PipelineContext) -> Iterator[Violation]:
    """Keys by what reads the file."""
    match pipeline.kind:
        case FileKind.BUILDKITE:
            yield from _misspelt_keys_of_buildkite(pipeline)
        case FileKind.OWN_STEPS:
            yield from _generator(pipeline)
        case FileKind.WORKFLOW | FileKind.ACTION | FileKind.DATA:
            return


def _misspelt_keys_of_buildkite(pipeline: PipelineFile) -> Iterator[Violation]:
    root = pipeline.root
    for field in _own(root, PIPELINE_KEYS) if root else ():
        # A pipeline may hold anchors under any name; only a misspelt name is reported.
        if nearest_key(field.key.value, PIPELINE_KEYS) and field.key.value not in BUILDKITE_KEYS:
            yield _misspelt_key(
                pipeline, field, "a pipeline", PIPELINE_KEYS, "Buildkite ignores it"
            )
    for step in pipeline.steps:
        known = _OF_KIND[step.kind]
        for field in _own(step.node, known):
            # Without a likely meaning, it may be the key of a generator.
            if _meant(field.key.value, known):
                words = f"a {step.kind} step"
                yield _misspelt_key(pipeline, field, words, known, "Buildkite ignores it")


def _generator(pipeline: PipelineFile) -> Iterator[Violation]:
    """A key used once that nearly is a known one: a long one, or the one that steps beside it use."""
    used = Counter(name for step in pipeline.steps for name in step.node.fields)
    known = BUILDKITE_KEYS | GENERATOR_KEYS
    beside = frozenset(name for name in known if used[name] >= _MANY)
    for step in pipeline.steps:
        for field in _own(step.node, known):
            name = field.key.value
            if used[name] != 1:
                continue
            among = known if len(name) >= _LONG else beside
            nearest = nearest_key(name, among) if len(name) > _SHORT and among else None
            if nearest:
                reason = "a generator ignores what it does not know"
                yield _misspelt_key(pipeline, field, "a step", among, reason, Severity.WARNING)


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


# Values that the reader of a pipeline refuses, or cannot mean what they say.

INVALID_VALUE: Final = LintRule(
    rule=Rule(
        id="pipeline/invalid-value",
        severity=Severity.ERROR,
        meaning="A key of a step has a value that Buildkite does not accept, or two keys exclude each other.",
        remedy="Write a value that the reference of the pipeline's steps allows.",
    ),
    bad=(
        buildkite("steps:\n  - command: make\n    timeout_in_minutes: 30m\n"),
        buildkite("steps:\n  - command: make\n    retry: {automatic: [{exit_status: 300}]}\n"),
        buildkite(
            "steps:\n  - command: make\n    retry: {automatic: [{exit_status: 75, limit: 20}]}\n"
        ),
        buildkite(
            "steps:\n  - command: make\n    retry: {automatic: [{signal_reason: agent_lost}]}\n"
        ),
        buildkite("steps:\n  - command: make\n    retry: {exit_status: 75}\n"),
        buildkite("steps:\n  - command: make\n    concurrency: 1\n"),
        buildkite("steps:\n  - command: make\n    soft_fail: [{exit_status: [1, 2]}]\n"),
        buildkite("steps:\n  - command: make\n    branches: main\n    if: build.tag != null\n"),
    ),
    good=(
        buildkite("steps:\n  - command: make\n    timeout_in_minutes: '30'\n"),
        buildkite("steps:\n  - command: make\n    timeout_in_minutes: ${LIMIT}\n"),
        buildkite(
            "steps:\n  - command: make\n    retry: {automatic: [{exit_status: [-1, 255], limit: 10}]}\n"
        ),
        buildkite(
            "steps:\n  - command: make\n    retry: {automatic: [{signal_reason: agent_stop}], manual: false}\n"
        ),
        buildkite("steps:\n  - command: make\n    concurrency: 1\n    concurrency_group: gpu\n"),
    ),
)

_REASONS: Final = word_set(
    "* none cancel agent_stop agent_refused agent_incompatible process_run_error signature_rejected stack_error"
)
Problem = tuple[Node, str]


def invalid_value(pipeline: PipelineFile, _context: PipelineContext) -> Iterator[Violation]:
    """Values of steps; a value that is filled in later is left alone."""
    if pipeline.kind not in (FileKind.BUILDKITE, FileKind.OWN_STEPS):
        return
    visited: set[tuple[int, str]] = set()
    for node, problem in chain.from_iterable(map(_refused_by_buildkite, pipeline.commands)):
        if (id(node), problem) not in visited:
            visited.add((id(node), problem))
            yield pipeline.violation(INVALID_VALUE, node, problem)
    # Exit statuses of retries that no agent of Unix reports. Buildkite accepts them, so they
    # break nothing.
    for step in pipeline.commands:
        retry = mapping_of(step.node.get("retry"))
        for rule in items_of(retry.get("automatic")) if retry else ():
            statuses = rule.get("exit_status") if isinstance(rule, MappingNode) else None
            for status in scalars_of(statuses):
                number = whole_number(status)
                if number is not None and not -1 <= number <= 255:
                    said = f"an exit status is from -1 to 255, never {number}"
                    yield pipeline.violation(INVALID_VALUE, status, said, severity=Severity.WARNING)


def _refused_by_buildkite(step: PipelineStep) -> Iterator[Problem]:
    node = step.node
    limit = node.get("timeout_in_minutes")
    if limit is not None and _is_no_number(limit):
        yield limit, f"the time limit '{text_of(limit)}' is no whole number of minutes"
    group = node.get("concurrency")
    if (
        whole_number(group) is not None
        and group is not None
        and node.get("concurrency_group") is None
    ):
        yield group, "`concurrency` without `concurrency_group`: Buildkite refuses the upload"
    branches = node.get("branches")
    if branches is not None and node.get("if") is not None:
        yield branches, "`branches` and `if` exclude each other"
    soft = node.get("soft_fail")
    for each in soft.items if isinstance(soft, SequenceNode) else ():
        status = each.get("exit_status") if isinstance(each, MappingNode) else None
        if isinstance(status, SequenceNode):
            yield status, "`soft_fail` takes one exit status an entry, not a list"
    retry = node.get("retry")
    if retry is not None:
        yield from _retry(retry)


def _is_no_number(node: Node) -> bool:
    text = text_of(node)
    if text is None or not text or text in ("~", "null") or "$" in text or "{" in text:
        return False
    return whole_number(node) is None


def _retry(retry: Node) -> Iterator[Problem]:
    if not isinstance(retry, MappingNode):
        if text_of(retry) not in ("", "~", "null", None):
            yield retry, "`retry` takes `automatic` and `manual`, not a value"
        return
    if retry.fields and retry.get("automatic", "manual") is None:
        yield next(iter(retry.fields.values())).key, "`retry` takes only `automatic` and `manual`"
    automatic = retry.get("automatic")
    for rule in automatic.items if isinstance(automatic, SequenceNode) else (automatic,):
        if isinstance(rule, MappingNode):
            yield from _rule(rule)


def _rule(rule: MappingNode) -> Iterator[Problem]:
    for status in scalars_of(rule.get("exit_status")):
        number = whole_number(status)
        if _is_no_number(status) and status.value != "*":
            yield status, f"the exit status '{status.value}' is no number"
    limit = rule.get("limit")
    number = whole_number(limit)
    if limit is not None and number is not None and not 0 <= number <= 10:
        yield limit, f"a step is retried at most 10 times, never {number}"
    for reason in scalars_of(rule.get("signal_reason")):
        if reason.value not in _REASONS and "$" not in reason.value:
            yield reason, f"'{reason.value}' is no signal reason of the agent"


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


RULES: Final = (
    (DUPLICATE_KEY, duplicate_key),
    (UNKNOWN_KEY, unknown_key),
    (INVALID_VALUE, invalid_value),
)
