# SPDX-License-Identifier: Apache-2.0
"""Acts on the build: runs buildkite-agent for a bounded time; a failure is a value.

A side channel must not change the result that it reports. The HTTP API behind the agent is not
stable (https://buildkite.com/docs/apis/agent-api), so its command line is the only door.
"""

import json
import re
import shutil
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Self

from msgspec import Struct

from ci_doctor.buildkite.agent_call import AgentCall, call_agent
from ci_doctor.system.secrets.cutting import first_words

CALL_TIMEOUT_S = 30.0
UPLOAD_TIMEOUT_S = 120.0
# From agent 3.110 on an option switches off their meaning in a glob, and sets the delimiter of
# paths.
_GLOB_CHARACTERS = frozenset("*?[]{}\\;")
# No path that pathlib wrote contains two slashes.
_DELIMITER = "//"


class AgentResult(Struct, frozen=True, kw_only=True):
    """How one call of the agent ended; `message` is one line for the job's log."""

    ok: bool
    message: str


class Agent:
    """The buildkite-agent on this machine, in the job whose variables are `environ`.

    All calls together take at most `budget_s` seconds from now on, if it is given: a call after
    that is not made, and its result says so.
    """

    def __init__(
        self,
        executable: str,
        environ: Mapping[str, str],
        *,
        call_timeout_s: float = CALL_TIMEOUT_S,
        upload_timeout_s: float = UPLOAD_TIMEOUT_S,
        budget_s: float | None = None,
    ) -> None:
        self._executable = executable
        self._environ = dict(environ)
        self._call_timeout_s = call_timeout_s
        self._upload_timeout_s = upload_timeout_s
        self._helps: dict[tuple[str, ...], AgentCall] = {}
        self._deadline = None if budget_s is None else time.monotonic() + budget_s

    @classmethod
    def find(cls, environ: Mapping[str, str], *, budget_s: float | None = None) -> Self | None:
        """The agent on the PATH of `environ`; None without one, or outside a Buildkite job."""
        if environ.get("BUILDKITE") != "true" or not environ.get("BUILDKITE_JOB_ID"):
            return None
        executable = shutil.which("buildkite-agent", path=environ.get("PATH", ""))
        return cls(executable, environ, budget_s=budget_s) if executable else None

    def annotate(
        self, body: str, *, style: str, context: str, priority: int | None = None
    ) -> AgentResult:
        """Put Markdown `body` (at most 1 MiB) on the build's page, instead of `context`'s old text.

        `style` is success, info, warning or error. `priority` is 1 (last) to 10 (first); agents
        older than 3.65 do not know it, and it is left out.
        """
        arguments = ["annotate", "--style", style, "--context", context]
        if priority is not None and self._knows("annotate", flag="priority"):
            arguments += ["--priority", str(priority)]
        # On stdin: one argument holds at most 128 KiB (MAX_ARG_STRLEN, execve(2)).
        return self._call(arguments, body=body, done=f"annotated {context}")

    def remove_annotation(self, context: str) -> AgentResult | None:
        """Remove the annotation of `context`; None, with nothing tried, if the agent is too old."""
        if not self._knows("annotation", "remove", flag="context"):
            return None
        arguments = ["annotation", "remove", "--context", context]
        return self._call(arguments, done=f"removed the annotation {context}")

    def get_metadata(self, key: str, *, default: str) -> tuple[str, AgentResult]:
        """The value of the build's meta-data `key`, one line of JSON, and how the call ended."""
        arguments = ["meta-data", "get", key, "--default", default]
        call = self._run(arguments)
        result = self._result(arguments, call, done=f"meta-data {key} read")
        # The agent's own log lines may stand around it.
        lines = [line for line in call.output.splitlines() if line.startswith(("{", "["))]
        return (lines[-1] if lines else default), result

    def set_metadata(self, key: str, value: str) -> AgentResult:
        """Set the build's meta-data `key` to `value`, which may not be blank."""
        return self._call(["meta-data", "set", key], body=value, done=f"meta-data {key} = {value}")

    def upload_artifacts(self, paths: Iterable[Path], cwd: Path) -> AgentResult:
        """Upload files as artifacts under their paths relative to `cwd`, which is above them.

        Before agent 3.110 every path is a pattern. A file whose name contains `*?[]{};` is left out
        there, and the result names it.
        """
        names = [str(path.relative_to(cwd)) for path in paths]
        options: list[str] = []
        delimiter = ";"
        odd: list[str] = []
        if self._knows("artifact", "upload", flag="literal"):
            delimiter = _DELIMITER
            options = ["--literal", "--delimiter", delimiter]
        else:
            odd = [name for name in names if _GLOB_CHARACTERS & set(name)]
        kept = [name for name in names if name not in odd]
        done = f"uploaded {len(kept)} artifacts"
        if odd:
            reason = "an agent before 3.110 reads such a name as a pattern"
            done += f", without {', '.join(odd)} ({reason})"
        if not kept:
            return AgentResult(ok=not odd, message=done)
        arguments = ["artifact", "upload", *options, delimiter.join(kept)]
        return self._call(arguments, done=done, timeout_s=self._upload_timeout_s, cwd=cwd)

    def set_environment(self, variables: Mapping[str, str]) -> AgentResult | None:
        """Set environment variables for the later phases of this job, with any characters.

        None, with nothing tried, if there are no variables, the job has no job API, or the agent is
        older than 3.45.
        """
        if not variables or not self._environ.get("BUILDKITE_AGENT_JOB_API_SOCKET"):
            return None
        if not self._knows("env", "set", flag="input-format"):
            return None
        try:
            # The agent reads stdin in lines of at most 64 KiB and takes a JSON object from each
            # line.
            lines = [json.dumps({name: _utf8(value)}) for name, value in variables.items()]
        except UnicodeEncodeError:
            return AgentResult(ok=False, message="buildkite-agent env set: a value is not UTF-8")
        body = "".join(f"{line}\n" for line in lines)
        # Not `quiet`: with it, agents hid a refused update behind exit status 0.
        arguments = ["env", "set", "--input-format=json", "--output-format=plain", "-"]
        done = f"set {', '.join(variables)} for the later phases of the job"
        return self._call(arguments, body=body, done=done)

    def _knows(self, *command: str, flag: str) -> bool:
        """Whether the agent's help lists the flag: an unknown flag would end the call."""
        answer = self._help(command).output
        return re.search(rf"--{re.escape(flag)}\b", answer) is not None

    def _help(self, command: tuple[str, ...], timeout_s: float | None = None) -> AgentCall:
        if command not in self._helps:
            self._helps[command] = self._run([*command, "--help"], timeout_s=timeout_s)
        return self._helps[command]

    def _call(
        self,
        arguments: list[str],
        *,
        done: str,
        body: str = "",
        timeout_s: float | None = None,
        cwd: Path | None = None,
    ) -> AgentResult:
        call = self._run(arguments, body=body, timeout_s=timeout_s, cwd=cwd)
        return self._result(arguments, call, done=done)

    @staticmethod
    def _result(arguments: list[str], call: AgentCall, *, done: str) -> AgentResult:
        if call.problem is None:
            return AgentResult(ok=True, message=done)
        # "annotate", "meta-data set": the words before the first value or flag.
        words = arguments[: 1 if arguments[0] == "annotate" else 2]
        message = f"buildkite-agent {' '.join(words)} {call.problem}"
        if call.last_line:
            message += f": {first_words(call.last_line, 500)}"
        return AgentResult(ok=False, message=message)

    def _run(
        self,
        arguments: list[str],
        *,
        body: str = "",
        timeout_s: float | None = None,
        cwd: Path | None = None,
    ) -> AgentCall:
        limit_s = self._limit_s(timeout_s or self._call_timeout_s)
        command = [self._executable, *arguments]
        return call_agent(command, self._environ, limit_s=limit_s, body=body, cwd=cwd)

    def _limit_s(self, wanted_s: float) -> float:
        """The seconds that a call may take; 0 or less if the budget is spent."""
        if self._deadline is None:
            return wanted_s
        return min(wanted_s, self._deadline - time.monotonic())


def _utf8(value: str) -> str:
    """`value`; raises UnicodeEncodeError for bytes that Python keeps as surrogates (PEP 383)."""
    value.encode()
    return value
