# SPDX-License-Identifier: Apache-2.0
"""Acts on the build: runs buildkite-agent for a bounded time; a failure is a value.

A side channel must not change the result that it reports. The HTTP API behind the agent is not
stable (https://buildkite.com/docs/apis/agent-api), so its command line is the only door.
"""

import contextlib
import json
import re
import shutil
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Self

from msgspec import Struct

from ci_doctor.buildkite.agent_call import AgentCall, call_agent, not_called
from ci_doctor.buildkite.api_time import SPENT, ApiTime, moving_s
from ci_doctor.model.words import shortened
from ci_doctor.system.secrets.redaction import Redactor

CALL_TIMEOUT_S = 30.0
UPLOAD_TIMEOUT_S = 120.0
# From agent 3.110 on an option switches off their meaning in a glob, and sets the delimiter of
# paths.
_GLOB_CHARACTERS = frozenset("*?[]{}\\;")
_QUOTED = 500  # characters of what the agent printed
_REDACTED = 64 * 1024
# No path that pathlib wrote contains two slashes.
_DELIMITER = "//"


class AgentResult(Struct, frozen=True, kw_only=True):
    """How one call of the agent ended; `message` is one line for the job's log."""

    ok: bool
    message: str


class Agent:
    """The buildkite-agent on this machine, in the job whose variables are `environ`.

    All calls together take at most `budget_s` seconds from now on, if it is given, and what
    `api_time` has left, but for the time that files take. A call after that is not made, and its
    result says so.
    """

    def __init__(
        self,
        executable: str,
        environ: Mapping[str, str],
        *,
        call_timeout_s: float = CALL_TIMEOUT_S,
        upload_timeout_s: float = UPLOAD_TIMEOUT_S,
        budget_s: float | None = None,
        api_time: ApiTime | None = None,
    ) -> None:
        self._executable = executable
        self._environ = dict(environ)
        self._call_timeout_s = call_timeout_s
        self._upload_timeout_s = upload_timeout_s
        self._helps: dict[tuple[str, ...], AgentCall] = {}
        self._api_time = api_time or ApiTime()
        self._deadline = None if budget_s is None else time.monotonic() + budget_s

    @classmethod
    def find(
        cls,
        environ: Mapping[str, str],
        *,
        budget_s: float | None = None,
        api_time: ApiTime | None = None,
    ) -> Self | None:
        """The agent on the PATH of `environ`; None without one, or outside a Buildkite job.

        api_time: of several agents in one process; without it, what is left for the job.
        """
        if environ.get("BUILDKITE") != "true" or not environ.get("BUILDKITE_JOB_ID"):
            return None
        executable = shutil.which("buildkite-agent", path=environ.get("PATH", ""))
        if executable is None:
            return None
        api_time = api_time or ApiTime.of_job(environ)
        return cls(executable, environ, budget_s=budget_s, api_time=api_time)

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
        # Only agents from 4 on end it with a line end.
        value = call.output.strip()
        if call.problem is None and not value.startswith(("{", "[")):
            return default, self._not_understood("meta-data get", value)
        result = self._result(arguments, call, done=f"meta-data {key} read")
        return (value if result.ok else default), result

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
        work_s = moving_s(_sizes(cwd / name for name in kept))
        call = self._run(arguments, timeout_s=self._upload_timeout_s, cwd=cwd, work_s=work_s)
        return self._result(arguments, call, done=done)

    def set_environment(self, variables: Mapping[str, str]) -> AgentResult | None:
        """Set environment variables for the later phases of this job, with any characters.

        None, with nothing tried, if there are no variables, the job has no job API, or the agent is
        older than 3.45.
        """
        if not variables or not self._environ.get("BUILDKITE_AGENT_JOB_API_SOCKET"):
            return None
        help_ = self._help(("env", "set"))
        if not help_.has_ended:
            # What it knows is not known: silence is not an old agent.
            return self._result(["env", "set --help"], help_, done="")
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
    ) -> AgentResult:
        call = self._run(arguments, body=body)
        return self._result(arguments, call, done=done)

    def _result(self, arguments: list[str], call: AgentCall, *, done: str) -> AgentResult:
        if call.problem is None:
            return AgentResult(ok=True, message=done)
        # "annotate", "meta-data set": the words before the first value or flag.
        words = arguments[: 1 if arguments[0] == "annotate" else 2]
        message = f"buildkite-agent {' '.join(words)} {call.problem}"
        if call.last_line:
            message += f": {self._quoted(call.last_line)}"
        return AgentResult(ok=False, message=message)

    def _not_understood(self, command: str, printed: str) -> AgentResult:
        """An answer that is none, although the agent ended with 0: it is never `nothing there`."""
        message = f"buildkite-agent {command} ended with status 0 and no answer"
        if printed:
            message += f", but printed: {self._quoted(printed)}"
        return AgentResult(ok=False, message=message)

    def _quoted(self, printed: str) -> str:
        """The beginning of what the agent printed, in one harmless line without secrets."""
        # Cut after it: half a secret is none that could be known.
        text = Redactor.from_environment(self._environ).text(printed[:_REDACTED])
        line = " ".join(text.split())
        shown = shortened(line, _QUOTED)
        return "".join(each if each.isprintable() else "\ufffd" for each in shown)

    def _run(
        self,
        arguments: list[str],
        *,
        body: str = "",
        timeout_s: float | None = None,
        cwd: Path | None = None,
        work_s: float = 0.0,
    ) -> AgentCall:
        """Call the agent; `work_s` are the seconds that its files may take."""
        wanted_s = self._call_timeout_s if timeout_s is None else timeout_s
        if self._deadline is not None:
            wanted_s = min(wanted_s, self._deadline - time.monotonic())
        limit_s = min(wanted_s, self._api_time.limit_s(wanted_s) + work_s)
        if self._api_time.left_s() <= 0:
            return not_called(SPENT)
        command = [self._executable, *arguments]
        with self._api_time.counted(work_s):
            return call_agent(command, self._environ, limit_s=limit_s, body=body, cwd=cwd)


def _sizes(paths: Iterable[Path]) -> list[int]:
    sizes = []
    for path in paths:
        # Whether it is there, the agent says.
        with contextlib.suppress(OSError):
            sizes.append(path.stat().st_size)
    return sizes


def _utf8(value: str) -> str:
    """`value`; raises UnicodeEncodeError for bytes that Python keeps as surrogates (PEP 383)."""
    value.encode()
    return value
