# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: one call of buildkite-agent, bounded in time and bytes; a failure is a value."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

# Of what the agent prints: a line for each artifact of a large build is some MiB.
_OUTPUT_BYTES = 32 * 1024 * 1024


class AgentCall(Struct, frozen=True, kw_only=True):
    """How a call ended.

    problem: the end of a sentence; None if the agent ended with status 0. output: its stdout, on
    which its answers are. log: its stderr. has_ended: false if it did not run, or was killed at the
    time limit.
    """

    problem: str | None
    output: str = ""
    log: str = ""
    has_ended: bool = True

    @property
    def last_line(self) -> str:
        """The last line that is not blank, of the log if that has one."""
        lines = self.log.strip().splitlines() or self.output.strip().splitlines()
        return lines[-1].strip() if lines else ""

    def says(self, words: str) -> bool:
        """Whether it printed `words`: versions of the agent differ in where, and in their case."""
        return words.lower() in f"{self.output}\n{self.log}".lower()


def call_agent(
    command: Sequence[str],
    environ: Mapping[str, str],
    *,
    limit_s: float,
    body: str = "",
    cwd: Path | None = None,
) -> AgentCall:
    """Run `command` with `body` as its stdin for at most `limit_s` seconds.

    With 0 seconds or less it is not run: the time for publishing is over. Raises nothing for what can go wrong with it.
    """
    if limit_s <= 0:
        return not_called("the time for publishing is over")
    try:
        # Files and not pipes: nobody has to drain them, and a grandchild that keeps one open
        # delays nobody.
        with _memory_file() as stdin, _memory_file() as output, _memory_file() as log:
            stdin.write(body.encode(errors="replace"))
            stdin.seek(0)
            process = subprocess.Popen(
                command,
                stdin=stdin,
                stdout=output,
                stderr=log,
                env=environ,
                cwd=cwd,
                start_new_session=True,
            )
            status = _wait(process, limit_s)
            size = output.seek(0, os.SEEK_END)
            printed, said = _text(output), _text(log)
    except (OSError, ValueError) as error:
        # ValueError: a NUL in an argument.
        return _without_end(f"could not be run: {error}")
    if status is None:
        given_up = f"did not end within {limit_s:.3g} s, and was given up"
        return AgentCall(problem=given_up, output=printed, log=said, has_ended=False)
    problem = f"failed with status {status}" if status else None
    if problem is None and size > _OUTPUT_BYTES:
        problem = (
            f"printed more than {_OUTPUT_BYTES // 1024**2} MiB, of which the rest was not read"
        )
    return AgentCall(problem=problem, output=printed, log=said)


def not_called(reason: str) -> AgentCall:
    """A call that was not made."""
    return _without_end(f"was not called: {reason}")


def _without_end(problem: str) -> AgentCall:
    return AgentCall(problem=problem, has_ended=False)


def _text(file: BinaryIO) -> str:
    file.seek(0)
    return file.read(_OUTPUT_BYTES).decode(errors="replace")


def _memory_file() -> BinaryIO:
    """A file without a disk, whose being full may be what the agent is to tell (memfd_create(2))."""
    return os.fdopen(os.memfd_create("buildkite-agent"), "w+b")


def _wait(process: "subprocess.Popen[bytes]", timeout_s: float) -> int | None:
    """The exit status; None after the time limit: the agent and its children are killed."""
    try:
        return process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        _kill_group(process)
        return None
    except BaseException:
        _kill_group(process)
        raise


def _kill_group(process: "subprocess.Popen[bytes]") -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
