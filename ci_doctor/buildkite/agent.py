# SPDX-License-Identifier: Apache-2.0
"""Acts on the build: runs buildkite-agent, bounded in time and bytes; a failure is a value."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, Final, Self

from msgspec import Struct

from ci_doctor.buildkite.plugin import HOST_REPORT_DIR_VARIABLE, REPORT_DIR_VARIABLE
from ci_doctor.errors import CiDoctorError
from ci_doctor.model.words import shortened
from ci_doctor.system.files.access import write_atomically
from ci_doctor.system.secrets.redaction import Redactor

# --- one call of buildkite-agent, bounded in time and bytes; a failure is a value ---

# Of what the agent prints: a line for each artifact of a large build is some MiB.
_OUTPUT_BYTES = 32 * 1024 * 1024
# The library of the agent's command line says so (github.com/urfave/cli).
_UNKNOWN = ("flag provided but not defined", "no help topic")


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

    def says(self, *words: str) -> bool:
        """Whether it printed one of `words`: versions of the agent differ in where, and in their case."""
        printed = f"{self.output}\n{self.log}".lower()
        return any(each in printed for each in words)

    @property
    def is_too_old(self) -> bool:
        """Whether the agent does not know the command or one of its flags, so that it did nothing."""
        return self.has_ended and self.problem is not None and self.says(*_UNKNOWN)


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


# --- how long a job waits for Buildkite's API, by the agent and by REST, in all its hooks ---
# A slow API must not cost a job more than the job itself is worth.

MOST_S: Final = 30.0
SPENT: Final = f"Buildkite's API has had its {MOST_S:g} s of this job"
_FILE: Final = ".api.json"
# Of what is left, for one call: those after it are to have a part, too.
_SHARE: Final = 2 / 3
_LEAST_S: Final = 3.0
# What is shorter is not written for the next hook: it would cost more than it counts.
_COUNTED_S: Final = 0.5
# Of files that are moved: a network that is slower than this counts as an API that is slow.
_BYTES_A_SECOND: Final = 5_000_000
_SECONDS_A_FILE: Final = 0.1


class ApiTime:
    """The seconds that are left of MOST_S for a job.

    kept: the file in which the hooks of `job` hand on what they have taken; None for none.
    """

    def __init__(self, job: str = "", kept: Path | None = None) -> None:
        self._job = job
        self._kept = kept
        self._taken_s = self._read()

    @classmethod
    def of_job(cls, environ: Mapping[str, str]) -> Self:
        """What is left for the job of `environ`; all of it where nothing is kept."""
        job = environ.get("BUILDKITE_JOB_ID", "")
        root = environ.get(HOST_REPORT_DIR_VARIABLE) or environ.get(REPORT_DIR_VARIABLE)
        return cls(job, Path(root, _FILE) if job and root else None)

    def left_s(self) -> float:
        """Seconds left; 0 or less if there are none."""
        return MOST_S - self._taken_s

    def limit_s(self, wanted_s: float) -> float:
        """Of `wanted_s` what one call may take; 0 or less if it is not to be made."""
        left_s = self.left_s()
        return min(wanted_s, max(_SHARE * left_s, min(left_s, _LEAST_S)))

    @contextlib.contextmanager
    def counted(self, work_s: float = 0.0) -> Iterator[None]:
        """Count the time of a call, but for `work_s` seconds that its files take."""
        began = time.monotonic()
        try:
            yield
        finally:
            seconds = time.monotonic() - began - work_s
            self._taken_s += max(seconds, 0.0)
            if seconds >= _COUNTED_S:
                self._write()

    def _read(self) -> float:
        try:
            kept = json.loads(self._kept.read_bytes()) if self._kept else {}
            # A directory may be one for several jobs.
            return float(kept["seconds"]) if kept.get("job") == self._job else 0.0
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return 0.0

    def _write(self) -> None:
        if self._kept is None or not self._kept.parent.is_dir():
            return
        # Without it the next hook waits as if there had been no other.
        with contextlib.suppress(CiDoctorError):
            content = {"job": self._job, "seconds": round(self._taken_s, 3)}
            write_atomically(self._kept, json.dumps(content).encode())


def moving_s(sizes: Sequence[int]) -> float:
    """Seconds that files of these sizes may take to be moved: no fault of the API."""
    return sum(sizes) / _BYTES_A_SECOND + len(sizes) * _SECONDS_A_FILE


# --- runs buildkite-agent for a bounded time; a failure is a value ---
# A side channel must not change the result that it reports. The HTTP API behind the agent is not
# stable (https://buildkite.com/docs/apis/agent-api), so its command line is the only door.

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
        ordered = [] if priority is None else ["--priority", str(priority)]
        # On stdin: one argument holds at most 128 KiB (MAX_ARG_STRLEN, execve(2)).
        call = self._run([*arguments, *ordered], body=body)
        if ordered and call.is_too_old:
            call = self._run(arguments, body=body)
        return self._result(arguments, call, done=f"annotated {context}")

    def remove_annotation(self, context: str) -> AgentResult | None:
        """Remove the annotation of `context`; None, with nothing done, if the agent is too old."""
        arguments = ["annotation", "remove", "--context", context]
        call = self._run(arguments)
        done = f"removed the annotation {context}"
        return None if call.is_too_old else self._result(arguments, call, done=done)

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
        arguments = ["meta-data", "set", key]
        return self._result(
            arguments, self._run(arguments, body=value), done=f"meta-data {key} = {value}"
        )

    def upload_artifacts(self, paths: Iterable[Path], cwd: Path) -> AgentResult:
        """Upload files as artifacts under their paths relative to `cwd`, which is above them.

        Before agent 3.110 every path is a pattern. A file whose name contains `*?[]{};` is left out
        there, and the result names it.
        """
        names = [str(path.relative_to(cwd)) for path in paths]
        if not names:
            return AgentResult(ok=True, message="no artifact to upload")
        call = self._upload(names, ["--literal", "--delimiter", _DELIMITER], _DELIMITER, cwd)
        done = f"uploaded {len(names)} artifacts"
        if call.is_too_old:
            odd = [name for name in names if _GLOB_CHARACTERS & set(name)]
            names = [name for name in names if name not in odd]
            done = f"uploaded {len(names)} artifacts"
            if odd:
                reason = "an agent before 3.110 reads such a name as a pattern"
                done += f", without {', '.join(odd)} ({reason})"
            if not names:
                return AgentResult(ok=False, message=done)
            call = self._upload(names, [], ";", cwd)
        return self._result(["artifact", "upload"], call, done=done)

    def _upload(
        self, names: Sequence[str], options: Sequence[str], delimiter: str, cwd: Path
    ) -> AgentCall:
        arguments = ["artifact", "upload", *options, delimiter.join(names)]
        paths = (cwd / name for name in names)
        sizes = []
        for path in paths:
            # Whether it is there, the agent says.
            with contextlib.suppress(OSError):
                sizes.append(path.stat().st_size)
        work_s = moving_s(sizes)
        return self._run(arguments, timeout_s=self._upload_timeout_s, cwd=cwd, work_s=work_s)

    def set_environment(self, variables: Mapping[str, str]) -> AgentResult | None:
        """Set environment variables for the later phases of this job, with any characters.

        None, with nothing done, if there are no variables, the job has no job API, or the agent is
        older than 3.45.
        """
        if not variables or not self._environ.get("BUILDKITE_AGENT_JOB_API_SOCKET"):
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
        call = self._run(arguments, body=body)
        return None if call.is_too_old else self._result(arguments, call, done=done)

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


def _utf8(value: str) -> str:
    """`value`; raises UnicodeEncodeError for bytes that Python keeps as surrogates (PEP 383)."""
    value.encode()
    return value
