# SPDX-License-Identifier: Apache-2.0
"""What a launch means: verdict, exit code and one sentence. Pure."""

import errno
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from ci_doctor.model.exit_code import ExitCode
from ci_doctor.model.outcome import Failure
from ci_doctor.model.verdict import Verdict
from ci_doctor.services.launch.client import NOT_EXECUTABLE, NOT_FOUND
from ci_doctor.services.launch.launched import ClientRun, Launched
from ci_doctor.services.outcome import FailureKind, ServiceFailure
from ci_doctor.system.processes.process import describe_exit


class Conclusion(Struct, frozen=True, kw_only=True):
    """What a launch means; with a verdict of None, `error` says why there is none."""

    verdict: Verdict | None
    exit_code: int
    summary: str
    error: Failure | None = None


def conclude(launched: Launched, codes: Mapping[str, int]) -> Conclusion:
    """The verdict and the exit code; `codes` are a repository's own, by verdict. A client's status is handed on as it is."""
    failure, client = launched.failure, launched.client
    if failure is not None:
        verdict = Verdict.INFRA if failure.kind is FailureKind.OUTSIDE else Verdict.REGRESSION
        return Conclusion(
            verdict=verdict, exit_code=codes[verdict.value], summary=_blame(launched, failure)
        )
    if launched.received is not None:
        return _interrupted(launched, launched.received)
    assert client is not None  # noqa: S101 - without one, only a failure or a signal ends a launch
    if client.unable is not None:
        message = f"cannot run {client.words[0]}: {os.strerror(client.unable)}"
        hint = "is it made for this machine, and does a script begin with #! and its interpreter?"
        code = NOT_FOUND if client.unable == errno.ENOENT else NOT_EXECUTABLE
        return Conclusion(
            verdict=None, exit_code=code, summary=message, error=Failure(message=message, hint=hint)
        )
    code = status(client)
    verdict = Verdict.REGRESSION if code else Verdict.PASS
    return Conclusion(
        verdict=verdict, exit_code=code, summary=f"{client_end(client)}; {_lived(launched)}"
    )


def status(client: ClientRun) -> int:
    """The client's exit status as a shell has it; 70 where nobody knows it."""
    if client.returncode is None:
        return ExitCode.BUG
    return client.returncode if client.returncode >= 0 else 128 - client.returncode


def _blame(launched: Launched, failure: ServiceFailure) -> str:
    if launched.client is None:
        return f"the service {failure.service} failed, so every service was stopped"
    name = client_name(launched.client)
    if launched.client.duration_s == 0.0:
        return f"the service {failure.service} failed, so {name} was not run"
    return f"the service {failure.service} failed while {name} ran"


def _interrupted(launched: Launched, received: signal.Signals) -> Conclusion:
    left = launched.stopped.survivors if launched.stopped else ()
    stopped = (
        f"could not stop {_listed([process.name for process in left])}"
        if left
        else "every process was stopped"
    )
    message = f"interrupted by {received.name}; {stopped}"
    code = ExitCode.SIGINT if received is signal.SIGINT else ExitCode.SIGTERM
    return Conclusion(verdict=None, exit_code=code, summary=message, error=Failure(message=message))


def client_end(client: ClientRun) -> str:
    """`pytest ended with exit code 3 after 3.2 s`."""
    if client.returncode is None:
        return f"how {client_name(client)} ended is not known"
    how = describe_exit(client.returncode)
    return f"{client_name(client)} {'was' if client.returncode < 0 else 'ended with'} {how} after {seconds(client.duration_s)}"


def _lived(launched: Launched) -> str:
    if launched.late is not None:
        return f"{launched.late.service} ended in the same moment"
    return f"{_listed([run.name for run in launched.services])} lived until then"


def _listed(names: Sequence[str]) -> str:
    """`kv`, `kv and vllm`, `kv, vllm and router`."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if names[1:] else names)


def client_name(client: ClientRun) -> str:
    """`pytest` for `/usr/bin/pytest`."""
    return Path(client.words[0]).name


def seconds(duration_s: float) -> str:
    """`3.2 s`."""
    return f"{duration_s:.1f} s"
