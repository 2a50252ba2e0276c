# SPDX-License-Identifier: Apache-2.0
"""Pure. Tries and time limits inside a step that do not fit into the time limit of the step."""

import re
from collections.abc import Iterator
from typing import Final

from ci_doctor.lint.excerpt import excerpt_of
from ci_doctor.lint.lint_rule import LintRule
from ci_doctor.lint.pipelines.examples import buildkite, job_steps, workflow
from ci_doctor.lint.pipelines.inner_times import InnerTime, duration, inner_times, minutes
from ci_doctor.lint.pipelines.pipeline_context import CorrectnessTimes, PipelineContext
from ci_doctor.lint.pipelines.pipeline_file import PipelineFile, PipelineStep
from ci_doctor.lint.pipelines.reading.scalar_lines import scalar_lines
from ci_doctor.lint.pipelines.reading.yaml_nodes import (
    MappingNode,
    Node,
    ScalarNode,
    mapping_of,
    text_of,
    whole_number,
)
from ci_doctor.lint.pipelines.scripts import steps_with_scripts
from ci_doctor.lint.violation import Place, Violation
from ci_doctor.model.finding import Severity
from ci_doctor.model.rule import Rule

RULE: Final = LintRule(
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
        buildkite(
            "steps:\n  - timeout_in_minutes: 60\n    command: pytest --reruns 2 --timeout=1800 tests\n"
        ),
        buildkite(
            "steps:\n  - timeout_in_minutes: 20\n    command: ci-doctor correctness --budget 25m\n"
        ),
        workflow("runs-on: gpu\ntimeout-minutes: 30\nsteps:\n- run: make\n  timeout-minutes: 60\n"),
        workflow(
            """
            runs-on: gpu
            timeout-minutes: 30
            steps:
            - uses: nick-fields/retry@v3
              with: {max_attempts: 3, timeout_minutes: 15, command: make}
            """
        ),
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
        buildkite(
            "steps:\n  - timeout_in_minutes: 30\n    command: ci-doctor correctness --budget 25m\n"
        ),
        workflow("runs-on: gpu\ntimeout-minutes: 60\nsteps:\n- run: make\n  timeout-minutes: 30\n"),
    ),
)

_CORRECTNESS = re.compile(r"\bci[-_]doctor\s+correctness\b(?P<rest>(?:[^\n;&|]|\\\n)*)")
_BUDGET = re.compile(r"--budget[= ]+[\"']?([\w.]+)")
_RETRIES = re.compile(r"--retries[= ]+(\d+)")


def check(pipeline: PipelineFile, context: PipelineContext) -> Iterator[Violation]:
    """Per step: its scripts, its own limit beside the job's, a retry action, `ci-doctor correctness`."""
    for step in pipeline.commands:
        yield from _inside_job(pipeline, step)
        yield from _retry_action(pipeline, step)
    for step, texts in steps_with_scripts(pipeline):
        limit = _limit(step)
        if limit is None or (step.mirrored and not _own_limit(step.node)):
            continue
        for text in texts:
            yield from _script(pipeline, step, text, limit, context)


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
    context: PipelineContext,
) -> Iterator[Violation]:
    if "timeout" not in text.value and "correctness" not in text.value:
        return
    too_long = [each for each in inner_times(text.value) if each.seconds > limit]
    too_long += [
        each for each in _correctness(text.value, context.correctness) if each.seconds > limit
    ]
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
            rule=RULE,
            place=Place(file=pipeline.file, line=line, end_line=line),
            summary=f"{each.words} may take {minutes(each.seconds)}, and {step.name} has {minutes(limit)}",
            excerpt=excerpt_of(pipeline.lines[line - 1]),
        )


def _correctness(script: str, times: CorrectnessTimes | None) -> Iterator[InnerTime]:
    """What a run of ours may take: its budget, else the starts of its first look."""
    for match in _CORRECTNESS.finditer(script):
        line = script.count("\n", 0, match.start())
        budget = _BUDGET.search(match["rest"])
        seconds = None if times is None else times.budget
        if budget is not None:
            seconds = duration(budget[1])
        if seconds is not None:
            words = "the budget of `ci-doctor correctness`"
            yield InnerTime(seconds=seconds, words=words, line=line)
        elif times is not None and times.start is not None:
            asked = _RETRIES.search(match["rest"])
            starts = int(asked[1]) if asked else times.retries
            words = f"{starts} candidate starts of `ci-doctor correctness`, of up to {minutes(times.start)},"
            yield InnerTime(seconds=starts * times.start, words=words, line=line)


def _inside_job(pipeline: PipelineFile, step: PipelineStep) -> Iterator[Violation]:
    if step.job is None:
        return
    outer, inner = step.job.node.get("timeout-minutes"), step.node.get("timeout-minutes")
    own, job = whole_number(inner), whole_number(outer)
    if inner is not None and outer is not None and own and job and own > job:
        yield pipeline.violation(
            RULE,
            inner,
            f"{step.name} may take {own} minutes, and its job only {job}",
            related=(outer,),
        )


def _retry_action(pipeline: PipelineFile, step: PipelineStep) -> Iterator[Violation]:
    options = mapping_of(step.node.get("with"))
    limit = _limit(step)
    if options is None or limit is None or "retry" not in (text_of(step.node.get("uses")) or ""):
        return
    attempts = options.get("max_attempts")
    tries, each = whole_number(attempts), _seconds_each(options)
    if attempts is not None and tries and each and tries * each > limit:
        yield pipeline.violation(
            RULE,
            attempts,
            f"{tries} tries of up to {minutes(each)} may take {minutes(tries * each)}, and the job has {minutes(limit)}",
        )


def _seconds_each(options: MappingNode) -> float | None:
    long: Node | None = options.get("timeout_minutes")
    if whole_number(long) is not None:
        return 60.0 * (whole_number(long) or 0)
    short = whole_number(options.get("timeout_seconds"))
    return None if short is None else float(short)
