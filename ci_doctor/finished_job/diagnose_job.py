# SPDX-License-Identifier: Apache-2.0
"""Reads the logs of a failed command together, and names the cause of its failure."""

import os
import re
from collections.abc import Sequence
from contextlib import ExitStack
from io import FileIO

from msgspec import structs

from ci_doctor.buildkite.job_log import CommandOutput
from ci_doctor.diagnosis.diagnosis import Diagnosis, diagnosis_of
from ci_doctor.diagnosis.log_rules import LAST_OUTPUT, RuleSet
from ci_doctor.diagnosis.log_story import LogStory, read_story
from ci_doctor.diagnosis.log_text import LogText
from ci_doctor.diagnosis.open_log import open_logs
from ci_doctor.diagnosis.outside import judged
from ci_doctor.finished_job.logs_of_job import LogsOfJob
from ci_doctor.model.cause import LIKELY, Cause

# What the command wrote is called so, in the report and beside it.
OUTPUT_NAME = "output.log"
# Where a command that fails says why; of these lines, those that the agent prints around it.
_LAST_LINES = 60
_OF_AGENT = re.compile(r"\$ |.{0,80}The command (?:exited|was interrupted)|\^\^\^ \+\+\+")
# From the last line of such a log to the end of the command. Later, something else ran and failed.
_MOST_SECONDS_AFTER = 10.0


def diagnose_job(
    logs: LogsOfJob,
    output: CommandOutput | None,
    rules: RuleSet,
    ended_at: float,
    status: int | None = None,
) -> Diagnosis:
    """The diagnosis of `logs`, and of what the command wrote if that is known.

    Its cause is final only if nothing else can have ended the command: all evidence was read whole,
    and a log beside the command's own output ends with the cause. A server may survive a full disk,
    and the test then fails by the change. ended_at: when the command ended, seconds since 1970.
    status: the command's, None if nobody knows.
    """
    with ExitStack() as stack:
        unusable = dict(logs.unusable)
        opened = _opened(logs.names, output, stack, unusable)
        stories = [read_story(log, index, rules) for index, log in enumerate(opened)]
        diagnosis = diagnosis_of(stories, opened, status=status)
        in_part = _in_part(logs, output, opened)
        cause = diagnosis.cause
        if cause is not None and cause.is_final:
            is_whole = logs.is_whole and not unusable and not in_part
            is_final = is_whole and _ended_command(cause, stories, opened, ended_at)
            cause = judged(cause, is_outside=cause.is_outside, is_final=is_final)
    return structs.replace(
        diagnosis, cause=cause, unreadable={**logs.missing, **unusable}, in_part=in_part
    )


def _opened(
    names: Sequence[str],
    output: CommandOutput | None,
    stack: ExitStack,
    unusable: dict[str, str],
) -> list[LogText]:
    opened = []
    if output is not None and output.content.strip():
        opened.append(_in_memory(output.content, stack))
    for name in names:
        try:
            logs, missing = stack.enter_context(open_logs(name))
            opened.extend(logs)
            unusable.update(missing)
        except OSError as error:
            unusable[name] = error.strerror or str(error)
    return opened


def _in_memory(content: bytes, stack: ExitStack) -> LogText:
    # The disk may be what is full.
    file = stack.enter_context(FileIO(os.memfd_create("output"), "r+b"))
    file.write(content)
    return LogText(OUTPUT_NAME, file, len(content))


def _in_part(
    logs: LogsOfJob, output: CommandOutput | None, opened: Sequence[LogText]
) -> dict[str, str]:
    damaged = {log.name: log.problem for log in opened if log.problem}
    if output is not None and output.problem is not None:
        damaged[OUTPUT_NAME] = output.problem
    return {**logs.in_part, **damaged}


def _ended_command(
    cause: Cause, stories: Sequence[LogStory], opened: Sequence[LogText], ended_at: float
) -> bool:
    """Whether the command ended by `cause`, as far as the log tells in which it stands."""
    # Of the command's own output its rank has told that already.
    if cause.place.file == OUTPUT_NAME:
        return True
    has_output = any(log.name == OUTPUT_NAME for log in opened)
    # What stands in the output that nobody has read, or in words that no rule knows, may be the change's fault.
    if has_output and not _points_elsewhere(stories[0], opened[0]):
        return False
    return has_output or _is_plain(cause, ended_at)


def _points_elsewhere(story: LogStory, output: LogText) -> bool:
    """Whether the command's `output` is silent, or a rule knows what it complains of."""
    if any(each.rule.id != LAST_OUTPUT.id for each in story.candidates):
        return True
    lines = [line.content.decode(errors="replace") for line in output.tail(_LAST_LINES)]
    return not any(line.strip() and not _OF_AGENT.match(line) for line in lines)


def _is_plain(cause: Cause, ended_at: float) -> bool:
    """Whether `cause` is likely, and the command ended as soon as its log did."""
    try:
        changed = os.stat(cause.place.file).st_mtime  # noqa: PTH116 an odd name stays as it is
    except OSError:
        return False
    return (cause.confidence or 0.0) >= LIKELY and ended_at - changed <= _MOST_SECONDS_AFTER
