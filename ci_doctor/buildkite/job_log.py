# SPDX-License-Identifier: Apache-2.0
"""Pure. The output of a job's command within the job's log, by the marks of the agent.

The agent writes `~~~ Running commands` before the command, and `The command exited with status 1`
after one that failed; what hooks print stands before and after that. From
github.com/buildkite/agent, internal/job/executor.go: defaultCommandPhase, executeHook, CommandPhase.
"""

import re
from typing import Final

from msgspec import Struct

# `\x1b_bk;t=1700000000000\x07` stands at the beginning of lines (managing_log_output.md).
_STAMPS: Final = rb"(?:\x1b_bk;t=\d+\x07)*"
_BEGIN: Final = re.compile(
    rb"^" + _STAMPS + rb"~~~ Running (?:commands|script|batch script"
    rb"|(?:agent|global|repository|local|plugin [^\n]{1,100}) command hook)[ \r]*\n",
    re.MULTILINE,
)
# Its colour and its `🚨 Error: ` stand before it.
_END: Final = re.compile(
    rb"^[^\n]{0,80}?The command (?:exited with status -?\d+|was interrupted by a signal)[^\n]*\n?",
    re.MULTILINE,
)


class CommandOutput(Struct, frozen=True, kw_only=True):
    """What a command wrote; `problem` says what of it may be missing, None if nothing is."""

    content: bytes
    problem: str | None = None


def command_output(log: bytes, *, is_whole: bool = True) -> CommandOutput | None:
    """The output of the command in `log`; None if the log does not show where it begins.

    is_whole: `log` holds the job's log from its start. The command itself may print such marks: the
    first beginning and the last end count.
    """
    begin = _BEGIN.search(log)
    if begin is None and is_whole:
        return None
    start = begin.end() if begin is not None and is_whole else 0
    end = _last_end(log, start)
    if not is_whole:
        problem = "only the end of the job's log was read"
    elif end is None:
        problem = "the agent had not yet written how the command ended"
    else:
        problem = None
    return CommandOutput(content=log[start:end], problem=problem)


def _last_end(log: bytes, start: int) -> int | None:
    end = None
    for match in _END.finditer(log, start):
        end = match.end()
    return end
