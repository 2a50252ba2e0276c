# SPDX-License-Identifier: Apache-2.0
"""Acts on sockets, files and processes: probes a service again and again until it is ready."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct, structs

from ci_doctor.errors import UsageError
from ci_doctor.services.busy_timeout import BusyTimeout, no_processes
from ci_doctor.services.probes import http_answer
from ci_doctor.services.probes.answers import AnswersSoFar, ProbeAnswer, Telling
from ci_doctor.services.probes.ready import ReadinessProbe, Scheme
from ci_doctor.system import clock

if TYPE_CHECKING:
    from ci_doctor.system.processes.process import Child

_FIRST_PAUSE_S = 0.02
_LONGEST_PAUSE_S = 0.05  # what becomes ready is noticed within 100 ms, with time for the attempt
_REFUSED = "connection refused"


class ProbeContext(Struct, frozen=True, kw_only=True):
    """What a probe works with.

    `log` is the service's, `environment` holds what `authorization` names. `spawn` starts words
    with stdout and stderr on a file descriptor, for `exec`. `pids` names the service's processes
    now.
    """

    log: Path | None = None
    environment: Mapping[str, str] = {}
    spawn: "Callable[[Sequence[str], int], Child] | None" = None
    pids: Callable[[], Iterable[int]] = no_processes


class Prober(Protocol):
    """One kind of probe, while a service is probed."""

    async def ask(self, limit_s: float) -> ProbeAnswer | None:
        """None if it holds now, else what is wrong; takes `limit_s` seconds at most."""

    async def rest(self, limit_s: float) -> None:
        """Return when another attempt is worth it, after `limit_s` seconds at the latest."""

    def close(self) -> None:
        """Give everything back."""


NO_CONTEXT = ProbeContext()


def ignore(_answer: str) -> None:
    """Ignore the answers of failed attempts."""


async def wait_until_ready(
    probe: ReadinessProbe,
    limit: float | BusyTimeout,
    context: ProbeContext = NO_CONTEXT,
    *,
    on_answer: Callable[[str], None] = ignore,
) -> str | None:
    """None once `probe` has held for its `ready_for_s`, else what was wrong.

    That is the most telling answer of all attempts: a status beats silence, and an attempt that was
    cut by the end of the time counts only if there was no other.

    `limit` is seconds, in which waits of the service for a CPU do not count (BusyTimeout); with 0
    there is one quick attempt. `on_answer` gets what is wrong after each attempt but the last. A
    log is searched from its beginning, and a match in it holds from then on.

    Raises UsageError if there can be no attempt: no log, a variable that is not set, a command that
    does not exist.
    """
    prober = make_prober(probe, context)
    time_limit = limit if isinstance(limit, BusyTimeout) else BusyTimeout(limit, context.pids)
    try:
        return await _until_it_holds(prober, probe, time_limit, on_answer)
    finally:
        prober.close()


def make_prober(probe: ReadinessProbe, context: ProbeContext) -> Prober:
    """What makes the attempts of this kind of probe. Raises UsageError as `wait_until_ready`."""
    if probe.is_network:
        return _NetworkProber(probe, context)
    # Late, because most probes are HTTP, and need neither inotify nor child processes.
    from ci_doctor.services.probes import local_probe

    if probe.scheme is Scheme.EXEC:
        return local_probe.ExecProber(probe, context.spawn)
    if probe.scheme is Scheme.LOG:
        return local_probe.LogProber(probe, context.log)
    return local_probe.FileProber(probe)


async def _until_it_holds(
    prober: Prober, probe: ReadinessProbe, time_limit: BusyTimeout, on_answer: Callable[[str], None]
) -> str | None:
    holding = _Holding(probe.ready_for_s)
    so_far = AnswersSoFar()
    while True:
        answer = holding.after(await prober.ask(time_limit.attempt_s(probe.attempt_s)))
        if answer is None:
            return None
        so_far.add(answer)
        # After the attempt: a limit of 0 still allows one.
        left_s = time_limit.left_s()
        if left_s <= 0:
            return so_far.cause()
        on_answer(answer.text)
        await prober.rest(min(left_s, holding.left_s))


class _Holding:
    """For how long a probe has held without a failure in between."""

    def __init__(self, wanted_s: float) -> None:
        self._wanted_s = wanted_s
        self._since: float | None = None
        self.left_s = float("inf")

    def after(self, answer: ProbeAnswer | None) -> ProbeAnswer | None:
        """None once it has held for long enough, else why not yet."""
        if answer is not None:
            self._since, self.left_s = None, float("inf")
            return answer
        now = clock.now()
        if self._since is None:
            self._since = now
        held_s = now - self._since
        self.left_s = self._wanted_s - held_s
        if self.left_s <= 0:
            return None
        return ProbeAnswer(
            text=f"it has been ready for {held_s:.1f} s, and must be for {self._wanted_s:g} s"
        )


class _NetworkProber:
    """HTTP and TCP. Sockets are opened directly, so proxy variables have no effect."""

    def __init__(self, probe: ReadinessProbe, context: ProbeContext) -> None:
        self._probe = probe
        self._pause_s = _FIRST_PAUSE_S
        try:
            self._authorization = probe.authorization_value(context.environment)
        except ValueError as error:
            hint = "export it, or pass it on to this step"
            raise UsageError(f"ready: {error}", hint=hint) from error

    async def ask(self, limit_s: float) -> ProbeAnswer | None:
        answer = await self._attempt_within(limit_s)
        if answer is None:
            return None
        return structs.replace(answer, text=self._without_secret(answer.text))

    async def rest(self, limit_s: float) -> None:
        await asyncio.sleep(min(self._pause_s, limit_s))
        # A server needs minutes to start: thirty requests a second would only slow it down.
        self._pause_s = min(self._pause_s * 1.5, _LONGEST_PAUSE_S)

    def close(self) -> None:
        pass

    async def _attempt_within(self, limit_s: float) -> ProbeAnswer | None:
        try:
            async with asyncio.timeout(limit_s):
                problem = await self._attempt()
        except TimeoutError:
            return ProbeAnswer(
                text=f"no answer within {limit_s:.3g} s",
                telling=Telling.SILENT,
                cut=limit_s < self._probe.attempt_s,
            )
        except ConnectionRefusedError:
            return ProbeAnswer(text=_REFUSED, telling=Telling.ABSENT)
        except OSError as error:
            return ProbeAnswer(text=f"no answer: {error}", telling=Telling.ABSENT)
        except EOFError:
            problem = "the connection was closed in the middle of the answer"
        except ValueError as error:
            problem = str(error)
        if problem is None:
            return None
        return ProbeAnswer(text=problem)

    async def _attempt(self) -> str | None:
        connection = await http_answer.connect(self._probe)
        try:
            if self._probe.scheme is Scheme.TCP:
                return None
            return await http_answer.ask(self._probe, connection, self._authorization)
        finally:
            # Not close(), which would wait for a server that reads no more.
            connection[1].transport.abort()

    def _without_secret(self, answer: str) -> str:
        """Without what was sent: a server may repeat it in its answer."""
        if self._authorization is None:
            return answer
        # The token alone too: a server may repeat it without `Bearer`.
        token = self._authorization.rpartition(" ")[2]
        for secret in (self._authorization, token):
            answer = answer.replace(secret, "***")
        return answer
