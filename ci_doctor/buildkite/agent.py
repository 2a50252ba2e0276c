# SPDX-License-Identifier: Apache-2.0
"""Acts on the build: runs buildkite-agent, for a bounded time, and answers failure as a value and never as an exception.

A side channel must not change the result of what it speaks about. The HTTP API behind the agent is not stable
(https://buildkite.com/docs/apis/agent-api), so its command line is the only door.
"""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Self

from msgspec import Struct

CALL_TIMEOUT_S = 30.0
UPLOAD_TIMEOUT_S = 120.0

# Their meaning in a glob, and the delimiter of paths, can be switched off from agent 3.110 on.
_GLOB_CHARACTERS = frozenset("*?[]{}\\;")
# Two slashes are in no path that pathlib wrote.
_DELIMITER = "//"


class AgentResult(Struct, frozen=True, kw_only=True):
    """How one call of the agent ended; `message` is one line for the job's log."""

    ok: bool
    message: str


class Agent:
    """The buildkite-agent on this machine, in the job whose variables are `environ`."""

    def __init__(
        self,
        executable: str,
        environ: Mapping[str, str],
        *,
        call_timeout_s: float = CALL_TIMEOUT_S,
        upload_timeout_s: float = UPLOAD_TIMEOUT_S,
    ) -> None:
        self._executable = executable
        self._environ = dict(environ)
        self._call_timeout_s = call_timeout_s
        self._upload_timeout_s = upload_timeout_s
        self._helps: dict[tuple[str, ...], str] = {}

    @classmethod
    def find(cls, environ: Mapping[str, str]) -> Self | None:
        """Find the agent on the PATH of `environ`; None where there is none or this is not a Buildkite job."""
        if environ.get("BUILDKITE") != "true" or not environ.get("BUILDKITE_JOB_ID"):
            return None
        executable = shutil.which("buildkite-agent", path=environ.get("PATH", ""))
        return cls(executable, environ) if executable else None

    def annotate(
        self, body: str, *, style: str, context: str, priority: int | None = None
    ) -> AgentResult:
        """Put Markdown `body` (at most 1 MiB) on the build's page, in place of what `context` held before.

        `style` is success, info, warning or error. `priority` is 1 (last) to 10 (first), and ignored by agents older than 3.65, which do not know it.
        """
        arguments = ["annotate", "--style", style, "--context", context]
        if priority is not None and self._knows("annotate", flag="priority"):
            arguments += ["--priority", str(priority)]
        # On stdin, since one argument may hold no more than 128 KiB.
        return self._call(arguments, body=body, done=f"annotated {context}")

    def set_metadata(self, key: str, value: str) -> AgentResult:
        """Set the build's meta-data `key` to `value`, which may not be blank."""
        return self._call(["meta-data", "set", key], body=value, done=f"meta-data {key} = {value}")

    def upload_artifacts(self, paths: Iterable[Path], cwd: Path) -> AgentResult:
        """Upload files as artifacts under their paths relative to `cwd`, which is above all of them.

        Before agent 3.110 every path is a pattern: a file whose name holds `*?[]{};` is left out there, and named.
        """
        names = [str(path.relative_to(cwd)) for path in paths]
        options, delimiter, odd = [], ";", []
        if self._knows("artifact", "upload", flag="literal"):
            options, delimiter = ["--literal", "--delimiter", _DELIMITER], _DELIMITER
        else:
            odd = [name for name in names if _GLOB_CHARACTERS & set(name)]
            names = [name for name in names if name not in odd]
        done = f"uploaded {len(names)} artifacts"
        if odd:
            done += f", without {', '.join(odd)} (an agent before 3.110 takes such a name for a pattern)"
        if not names:
            return AgentResult(ok=not odd, message=done)
        arguments = ["artifact", "upload", *options, delimiter.join(names)]
        return self._call(arguments, done=done, timeout_s=self._upload_timeout_s, cwd=cwd)

    def set_environment(self, variables: Mapping[str, str]) -> AgentResult | None:
        """Set environment variables for the later phases of this job, whatever characters their values hold.

        None, with nothing tried, where there are none, the job has no job API, or the agent is older than 3.45.
        """
        if not variables or not self._environ.get("BUILDKITE_AGENT_JOB_API_SOCKET"):
            return None
        if not self._knows("env", "set", flag="input-format"):
            return None
        try:
            # The agent reads stdin with a scanner of 64 KiB lines and takes a JSON object from each line.
            body = "".join(
                f"{json.dumps({name: _text(value)})}\n" for name, value in variables.items()
            )
        except UnicodeEncodeError:
            return AgentResult(ok=False, message="buildkite-agent env set: a value is not UTF-8")
        # Not `quiet`: with it, agents hid a refused update behind exit status 0.
        arguments = ["env", "set", "--input-format=json", "--output-format=plain", "-"]
        return self._call(
            arguments, body=body, done=f"set {', '.join(variables)} for the later phases of the job"
        )

    def _knows(self, *command: str, flag: str) -> bool:
        """Ask the agent's help: an unknown flag would end the call."""
        if command not in self._helps:
            self._helps[command] = self._run([*command, "--help"]).output
        return re.search(rf"--{re.escape(flag)}\b", self._helps[command]) is not None

    def _call(
        self,
        arguments: list[str],
        *,
        done: str,
        body: str = "",
        timeout_s: float | None = None,
        cwd: Path | None = None,
    ) -> AgentResult:
        ended = self._run(arguments, body=body, timeout_s=timeout_s, cwd=cwd)
        if ended.problem is None:
            return AgentResult(ok=True, message=done)
        # "annotate", "meta-data set": the words before the first value or flag.
        name = " ".join(arguments[: 1 if arguments[0] == "annotate" else 2])
        last_line = next((line for line in reversed(ended.output.splitlines()) if line.strip()), "")
        message = f"buildkite-agent {name} {ended.problem}" + (
            f": {last_line.strip()[:500]}" if last_line else ""
        )
        return AgentResult(ok=False, message=message)

    def _run(
        self,
        arguments: list[str],
        *,
        body: str = "",
        timeout_s: float | None = None,
        cwd: Path | None = None,
    ) -> "_Ended":
        timeout_s = timeout_s or self._call_timeout_s
        try:
            # Files and not pipes: nobody has to drain them, and a grandchild that keeps one open holds nobody up.
            with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as output:
                stdin.write(body.encode(errors="replace"))
                stdin.seek(0)
                problem = self._wait(
                    subprocess.Popen(
                        [self._executable, *arguments],
                        stdin=stdin,
                        stdout=output,
                        stderr=subprocess.STDOUT,
                        env=self._environ,
                        cwd=cwd,
                        start_new_session=True,
                    ),
                    timeout_s,
                )
                output.seek(0)
                return _Ended(problem=problem, output=output.read(1 << 20).decode(errors="replace"))
        except (OSError, ValueError) as error:
            # ValueError: a NUL in an argument.
            return _Ended(problem=f"could not be run: {error}", output="")

    @staticmethod
    def _wait(process: "subprocess.Popen[bytes]", timeout_s: float) -> str | None:
        """What went wrong, or None; the agent and all that it started are gone where it did not end in time."""
        try:
            status = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            _kill_group(process)
            return f"did not end within {timeout_s:g} s"
        except BaseException:
            _kill_group(process)
            raise
        return f"failed with status {status}" if status else None


class _Ended(Struct, frozen=True, kw_only=True):
    """`problem` is None where the agent ended with status 0."""

    problem: str | None
    output: str


def _kill_group(process: "subprocess.Popen[bytes]") -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _text(value: str) -> str:
    """Give back `value`, or raise UnicodeEncodeError for the bytes that Python smuggles in as surrogates."""
    value.encode()
    return value
