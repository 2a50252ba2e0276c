# SPDX-License-Identifier: Apache-2.0
"""Reads the job's log: the file that the agent keeps, or by the REST API."""

import os
import re
import stat
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.buildkite.agent import ApiTime
from ci_doctor.buildkite.rest import (
    JOB,
    RequestLimits,
    address,
    get,
    missing_variables,
    refusal,
    token,
)
from ci_doctor.system import clock

# --- the output of a job's command within the job's log, by the marks of the agent ---
# The agent writes `~~~ Running commands` before the command, and `The command exited with status 1`
# after one that failed; what hooks print stands before and after that. From
# github.com/buildkite/agent, internal/job/executor.go: defaultCommandPhase, executeHook, CommandPhase.

# `\x1b_bk;t=1700000000000\x07` stands at the beginning of lines (managing_log_output.md).
_STAMPS: Final = rb"(?:\x1b_bk;t=\d+\x07)*"
_STAMP: Final = re.compile(b"^" + _STAMPS)
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
    end = None
    for match in _END.finditer(log, start):
        end = match.end()
    if not is_whole:
        problem = "only the end of the job's log was read"
    elif end is None:
        problem = "the agent had not yet written how the command ended"
    else:
        problem = None
    return CommandOutput(content=log[start:end], problem=problem)


def without_echo(output: CommandOutput, command: str) -> CommandOutput:
    """`output` without `command` at its beginning, which the agent prints behind `$ `. Pure."""
    echoed = f"$ {command}".rstrip().encode().split(b"\n")
    lines = output.content.split(b"\n")
    begins = [_STAMP.sub(b"", line).rstrip() for line in lines[: len(echoed)]]
    if begins != [line.rstrip() for line in echoed]:
        return output
    return replace(output, content=b"\n".join(lines[len(echoed) :]))


# --- reads the job's log that the agent keeps beside the job, while the job runs ---
# The agent sets BUILDKITE_JOB_LOG_TMPFILE under its option `enable-job-log-tmpfile` (off by default).
# https://buildkite.com/docs/pipelines/configure/environment-variables#BUILDKITE_JOB_LOG_TMPFILE

VARIABLE = "BUILDKITE_JOB_LOG_TMPFILE"
MOST_BYTES = 64 * 1024 * 1024
# The agent passes output on as it comes; the last of it is a moment behind.
_WAIT_S = 2.0
_PAUSE_S = 0.1


def read_log_file(
    environ: Mapping[str, str], *, wait_s: float = _WAIT_S, most_bytes: int = MOST_BYTES
) -> CommandOutput | str | None:
    """The command's output, a sentence on why it cannot be had, or None without such a file.

    Waits up to `wait_s` seconds for the end of the output; reads the last `most_bytes` bytes.
    """
    name = environ.get(VARIABLE)
    if not name:
        return None
    try:
        return _until_whole(Path(name), most_bytes, wait_s)
    except OSError as error:
        return f"the job's log {name} cannot be read: {error.strerror or error}"


def _until_whole(path: Path, most_bytes: int, wait_s: float) -> CommandOutput | str:
    """Read again whenever the file has grown, until the end of the output is there."""
    deadline = clock.now() + wait_s
    known_bytes = -1
    output = None
    while True:
        size = path.stat().st_size
        if size != known_bytes:
            known_bytes = size
            output = _read(path, most_bytes)
        if output is not None and output.problem is None:
            return output
        if clock.now() >= deadline:
            return output or "the job's log does not show where the command begins"
        # Twenty looks at a size at most. inotify(7) would need the event loop, for nothing more.
        time.sleep(_PAUSE_S)


def _read(path: Path, most_bytes: int) -> CommandOutput | None:
    # Not a pipe, at which an open would wait.
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(f"{path} is not a regular file")
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        start = max(0, size - most_bytes)
        file.seek(start)
        return command_output(file.read(most_bytes), is_whole=start == 0)


# --- reads the job's log by Buildkite's REST API, where the job has a token for it ---
# GET /v2/organizations/…/pipelines/…/builds/…/jobs/…/log.txt needs a token with the scope
# `read_build_logs` (https://buildkite.com/docs/apis/rest-api/jobs). The token never stands in a
# message.

_MOST_BYTES = 8 * 1024 * 1024
_ALL_S = 10.0
_OK = 200


def request_log(
    environ: Mapping[str, str], *, all_s: float = _ALL_S, most_bytes: int = _MOST_BYTES
) -> CommandOutput | str | None:
    """The command's output, a sentence on why it cannot be had, or None without a token.

    At most the last `most_bytes` bytes of the log, in `all_s` seconds.
    """
    secret = token(environ)
    if not secret or missing_variables(environ, JOB):
        return None
    refused = refusal(environ)
    if refused is not None:
        return f"the job's log cannot be had from the API: {refused}"
    url = f"{address(environ, JOB)}/log.txt"
    headers = {"Authorization": f"Bearer {secret}", "Range": f"bytes=-{most_bytes}"}
    limits = RequestLimits(try_s=all_s, all_s=all_s, tries=1, reply_bytes=most_bytes)
    api_time = ApiTime.of_job(environ)
    with api_time.counted():
        reply = get(url, limits, headers=headers, most_s=api_time.left_s())
    if reply.problem is not None:
        return f"the job's log cannot be had from the API: {reply.problem}"
    # `bytes 0-99/100` (RFC 9110, 14.4): from the start of the log.
    is_whole = reply.status == _OK or reply.headers.get("content-range", "").startswith("bytes 0-")
    output = command_output(reply.body, is_whole=is_whole)
    return output or "the job's log does not show where the command begins"
