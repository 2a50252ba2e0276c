# SPDX-License-Identifier: Apache-2.0
"""What a launch means: its verdict and one sentence. Pure."""

import errno
import os
import signal
from collections.abc import Sequence

from msgspec import Struct

from ci_doctor.model.outcome import Failure, signal_kind
from ci_doctor.model.service import ServiceFailure
from ci_doctor.model.verdict import Verdict
from ci_doctor.render.formatting import duration
from ci_doctor.services.launch.launched import ClientRun, Launched
from ci_doctor.services.leaks.findings import summary
from ci_doctor.system.processes.process import describe_exit

# What a shell ends with if it cannot run a command, and ci-doctor if it does not know its status.
NOT_FOUND, NOT_EXECUTABLE, UNKNOWN = 127, 126, 70


class LaunchConclusion(Struct, frozen=True, kw_only=True):
    """What a launch means. Without a verdict, `error` tells why there is none.

    `status` is the client's exit status as a shell has it, if the client is what ended the launch.
    """

    verdict: Verdict | None
    summary: str
    error: Failure | None = None
    status: int | None = None


def conclude(launched: Launched) -> LaunchConclusion:
    """The verdict: of the service that failed, or of the client."""
    if launched.failure is not None:
        error = launched.failure.usage_error
        if error is not None:
            return LaunchConclusion(verdict=None, summary=error.message, error=error)
        return LaunchConclusion(
            verdict=launched.failure.verdict, summary=_blame(launched, launched.failure)
        )
    if launched.received is not None:
        return _interrupted(launched, launched.received)
    client = launched.client
    assert client is not None  # noqa: S101 - without one, only a failure or a signal ends a launch
    if client.unable is not None:
        return _unable(client, client.unable)
    status = status_of(client)
    strict = _strict_leaks(launched)
    # The client's own failure says more, and is a failure too.
    if strict and status == 0:
        return LaunchConclusion(
            verdict=Verdict.FAILED,
            summary=f"{client_end(client)}, but {strict}",
        )
    return LaunchConclusion(
        verdict=Verdict.FAILED if status else Verdict.PASS,
        summary=f"{client_end(client)}; {_lived(launched)}",
        status=status,
    )


def _strict_leaks(launched: Launched) -> str | None:
    """What a service that may leave nothing has left behind, in words."""
    if launched.stopped is None:
        return None
    left = launched.stopped.left_behind
    things = [thing for thing in left.things if thing.strict]
    if things:
        services = dict.fromkeys(name for thing in things for name in thing.services)
        return f"{_listed(list(services))} left behind {summary(things)}"
    if left.unseen:
        return "what its services left behind could not be seen"
    return None


def status_of(client: ClientRun) -> int:
    """The client's exit status as a shell has it; 70 if nobody knows it."""
    if client.returncode is None:
        return UNKNOWN
    if client.returncode < 0:
        return 128 - client.returncode  # what a shell's `$?` holds after a signal (POSIX, 2.8.2)
    return client.returncode


def client_end(client: ClientRun) -> str:
    """`pytest ended with exit code 3 after 3.2 s`."""
    if client.returncode is None:
        return f"how {client.name} ended is not known"
    verb = "ended with"
    if client.returncode < 0:  # a signal ended it: `was killed by SIGTERM`
        verb = "was"
    end = describe_exit(client.returncode)
    return f"{client.name} {verb} {end} after {duration(client.duration_s)}"


def _unable(client: ClientRun, number: int) -> LaunchConclusion:
    message = f"cannot run {client.words[0]}: {os.strerror(number)}"
    hint = "is it made for this machine, and does a script begin with #! and its interpreter?"
    return LaunchConclusion(
        verdict=None,
        summary=message,
        error=Failure(message=message, hint=hint),
        status=NOT_FOUND if number == errno.ENOENT else NOT_EXECUTABLE,
    )


def _blame(launched: Launched, failure: ServiceFailure) -> str:
    failed = f"the service {failure.service} failed"
    if launched.client is None:
        return f"{failed}, so every service was stopped"
    if launched.client.duration_s == 0.0:
        return f"{failed}, so {launched.client.name} was not run"
    return f"{failed} while {launched.client.name} ran"


def _interrupted(launched: Launched, received: signal.Signals) -> LaunchConclusion:
    stopped = "every process was stopped"
    if launched.stopped is not None and launched.stopped.survivors:
        names = [process.name for process in launched.stopped.survivors]
        stopped = f"could not stop {_listed(names)}"
    message = f"interrupted by {received.name}; {stopped}"
    return LaunchConclusion(
        verdict=None,
        summary=message,
        error=Failure(message=message, kind=signal_kind(received.name)),
    )


def _lived(launched: Launched) -> str:
    if launched.late is not None:
        return f"{launched.late.service} ended in the same moment"
    names = [run.name for run in launched.services]
    return f"{_listed(names)} lived until then"


def _listed(names: Sequence[str]) -> str:
    """`kv`, `kv and vllm`, `kv, vllm and router`."""
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"
