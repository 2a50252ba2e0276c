# SPDX-License-Identifier: Apache-2.0
"""Acts on the network: a load that goes on while a service is killed and comes back."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

import httpx

from ci_doctor.load.requests import Request
from ci_doctor.load.sending import Reply, Sender, ask, send_all
from ci_doctor.restart.observed import Phase
from ci_doctor.system import clock

# A refused client does not try again at once; and thousands of attempts a second would slow down
# the relaunch.
_REST_S = 0.25


async def one_pass(
    sender: Sender, requests: Sequence[Request], keep: Callable[[Reply], None]
) -> float:
    """Send everything once; returns the seconds from the first request to the last reply.

    Raises InfraError as `ask`.
    """
    first = float("inf")
    last = 0.0
    if not requests:
        return 0.0

    def note(reply: Reply) -> None:
        nonlocal first, last
        first = min(first, reply.sent_at)
        last = max(last, reply.ended_at)
        keep(reply)

    await send_all(sender, requests, note)
    return last - first


class Traffic:
    """Sends requests inside `async with`: one whole pass, and after `go_on` again and again.

    `keep` gets each reply with the phase in which its request was sent: set `phase` as it changes.
    Leaving the block drops what is under way; `drain` waits for it first.
    """

    def __init__(
        self,
        sender: Sender,
        requests: Sequence[Request],
        keep: Callable[[Phase, Reply], None],
        *,
        reached_at: int,
    ) -> None:
        self.phase = Phase.KILL
        self.done = 0
        self.began = 0.0
        self._sender = sender
        self._requests = requests
        self._keep = keep
        self._reached_at = reached_at
        self._sent = 0
        self._endless = asyncio.Event()
        self._over = asyncio.Event()
        self._reached = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self.began = clock.now()
        self._task = asyncio.create_task(self._send())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._task is not None  # noqa: S101 - __aenter__ made it
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def reached(self) -> None:
        """Until `reached_at` requests are done; with 0, until the first are on their way.

        Raises as `drain`.
        """
        assert self._task is not None  # noqa: S101 - __aenter__ made it
        # Beside the sending itself, which would otherwise fail unnoticed and never get there.
        waiting = asyncio.create_task(self._reached.wait())
        try:
            await asyncio.wait({waiting, self._task}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
        if self._task.done():
            self._task.result()

    def go_on(self) -> None:
        """From now on begin again at the end of the file."""
        self._endless.set()

    async def drain(self) -> None:
        """Send nothing more, and wait for every reply. Raises InfraError as `ask`."""
        assert self._task is not None  # noqa: S101 - __aenter__ made it
        self._over.set()
        # Wakes those that wait at the end of the file; they then find that it is over.
        self._endless.set()
        await self._task

    async def _send(self) -> None:
        try:
            async with self._sender.client() as client, asyncio.TaskGroup() as group:
                for _ in range(self._sender.concurrency):
                    group.create_task(self._one_after_another(client))
        except ExceptionGroup as errors:
            # All tasks fail for the same reason; one is enough to report.
            raise errors.exceptions[0] from errors

    async def _one_after_another(self, client: httpx.AsyncClient) -> None:
        while True:
            request = await self._next()
            if request is None:
                break
            # Read before the request: it may be answered in the next phase.
            phase = self.phase
            reply = await ask(client, self._sender, request)
            self.done += 1
            self._keep(phase, reply)
            self._check_reached()
            if reply.error is not None:
                await self._rest()

    async def _rest(self) -> None:
        # Not a plain sleep: `drain` must not wait for clients that only rest.
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._over.wait(), _REST_S)

    async def _next(self) -> Request | None:
        if not self._requests:
            return None
        if self._sent >= len(self._requests):
            await self._endless.wait()
        if self._over.is_set():
            return None
        request = self._requests[self._sent % len(self._requests)]
        self._sent += 1
        self._check_reached()
        return request

    def _check_reached(self) -> None:
        # A kill at 0 done needs requests on their way, or it would hit an idle server.
        if self._reached_at:
            is_reached = self.done >= self._reached_at
        else:
            is_reached = self._sent >= min(self._sender.concurrency, len(self._requests))
        if is_reached:
            self._reached.set()
