# SPDX-License-Identifier: Apache-2.0
"""Acts on sockets, files and processes: asks a service again and again whether it is ready."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from ci_doctor.errors import UsageError
from ci_doctor.services.probes import http_answer
from ci_doctor.services.probes.ready import ReadinessProbe, Scheme
from ci_doctor.system import clock

if TYPE_CHECKING:
    from ci_doctor.system.processes.process import Child

_SHORTEST_ATTEMPT_S = 0.1  # the last one, made when time is up, must not fail for its own haste
_FIRST_PAUSE_S = 0.02
_LONGEST_PAUSE_S = 0.05  # what becomes ready is to be noticed within 100 ms, by a busy machine too
_REFUSED = "connection refused"


class ProbeContext(Struct, frozen=True, kw_only=True):
    """What a probe works with: the service's `log`, the `environment` for `authorization`, and what `exec` runs with.

    `spawn` starts words with stdout and stderr on a file descriptor, as a process whose end it can tell.
    """

    log: Path | None = None
    environment: Mapping[str, str] = {}
    spawn: "Callable[[Sequence[str], int], Child] | None" = None


class Asker(Protocol):
    """One kind of probe, while it is asked."""

    async def ask(self, limit_s: float) -> str | None:
        """None where it holds now, else what was seen instead; takes `limit_s` at most."""

    async def rest(self, limit_s: float) -> None:
        """Return when it is worth asking again, after `limit_s` at the latest."""

    def close(self) -> None:
        """Give everything back."""


NO_CONTEXT = ProbeContext()


def ignore(_seen: str) -> None:
    """What is seen on the way is of no interest."""


async def wait_until_ready(
    probe: ReadinessProbe,
    limit_s: float,
    context: ProbeContext = NO_CONTEXT,
    *,
    on_seen: Callable[[str], None] = ignore,
) -> str | None:
    """None once `probe` has held for its `ready_for_s`; what was seen last, when `limit_s` is over first.

    `on_seen` is told after each attempt why it is not ready yet. With a limit of 0 it is asked once, quickly. A log is searched from its beginning, and what once stood there counts on.
    Raises UsageError where it cannot be asked at all: no log, a variable that is not set, a command that does not exist.
    """
    asker = make_asker(probe, context)
    try:
        return await _until_it_holds(asker, probe, limit_s, on_seen)
    finally:
        asker.close()


def make_asker(probe: ReadinessProbe, context: ProbeContext) -> Asker:
    """What asks this kind of probe. Raises UsageError as `wait_until_ready`."""
    if probe.is_network:
        return _NetworkAsker(probe, context)
    from ci_doctor.services.probes import local_probe

    if probe.scheme is Scheme.EXEC:
        return local_probe.ExecAsker(probe, context.spawn)
    if probe.scheme is Scheme.LOG:
        return local_probe.LogAsker(probe, context.log)
    return local_probe.FileAsker(probe)


async def _until_it_holds(
    asker: Asker, probe: ReadinessProbe, limit_s: float, on_seen: Callable[[str], None]
) -> str | None:
    deadline = clock.now() + limit_s
    holds_since: float | None = None
    while True:
        seen = await asker.ask(
            min(max(deadline - clock.now(), _SHORTEST_ATTEMPT_S), probe.attempt_s)
        )
        now = clock.now()
        holds_since = None if seen is not None else now if holds_since is None else holds_since
        held_s = 0.0 if holds_since is None else now - holds_since
        if holds_since is not None and held_s >= probe.ready_for_s:
            return None
        seen = (
            seen or f"it has been ready for {held_s:.1f} s, and must be for {probe.ready_for_s:g} s"
        )
        if now >= deadline:
            return seen
        on_seen(seen)
        rest_s = deadline - now
        if holds_since is not None:
            rest_s = min(rest_s, probe.ready_for_s - held_s)
        await asker.rest(rest_s)


class _NetworkAsker:
    """HTTP and TCP. Sockets are opened directly, so proxy variables have no say."""

    def __init__(self, probe: ReadinessProbe, context: ProbeContext) -> None:
        self._probe = probe
        self._pause = _FIRST_PAUSE_S
        try:
            self._authorization = probe.authorization_value(context.environment)
        except ValueError as error:
            raise UsageError(
                f"ready: {error}", hint="export it, or pass it on to this step"
            ) from error

    async def ask(self, limit_s: float) -> str | None:
        seen = await self._attempt_within(limit_s)
        return self._without_secret(seen) if seen else None

    async def rest(self, limit_s: float) -> None:
        await asyncio.sleep(min(self._pause, limit_s))
        self._pause = min(self._pause * 1.5, _LONGEST_PAUSE_S)

    def close(self) -> None:
        pass

    async def _attempt_within(self, limit_s: float) -> str | None:
        try:
            async with asyncio.timeout(limit_s):
                return await self._attempt()
        except TimeoutError:
            return f"no answer within {limit_s:.3g} s"
        except ConnectionRefusedError:
            return _REFUSED
        except OSError as error:
            return f"no answer: {error}"
        except EOFError:
            return "the connection was closed in the middle of the answer"
        except ValueError as error:
            return str(error)

    async def _attempt(self) -> str | None:
        connection = await http_answer.connect(self._probe)
        try:
            if self._probe.scheme is Scheme.TCP:
                return None
            return await http_answer.ask(self._probe, connection, self._authorization)
        finally:
            connection[1].transport.abort()

    def _without_secret(self, seen: str) -> str:
        """A server may answer with what it was sent."""
        if self._authorization is None:
            return seen
        for secret in (self._authorization, self._authorization.rpartition(" ")[2]):
            seen = seen.replace(secret, "***")
        return seen
