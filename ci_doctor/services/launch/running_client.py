# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: the command that runs under a group of services, in the foreground."""

import asyncio
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ci_doctor.services.launch.client import client_environment, filled_words
from ci_doctor.services.launch.launched import ClientRun
from ci_doctor.services.running import RunningGroup
from ci_doctor.system import clock
from ci_doctor.system.processes.interruption import in_foreground
from ci_doctor.system.processes.process import has_ended

if TYPE_CHECKING:
    from ci_doctor.system.processes.process import Child

# What the client has to end, of the agent's 10 s, after a signal to ourselves: once we have asked
# it; if Ctrl-C has reached it already; and before we ask it, because the same signal may have gone
# to our whole process group.
_LAST_S = 1.0
_AFTER_CTRL_C_S = 2.0
_BEFORE_ASKING_S = 0.1


class RunningClient:
    """The command under the services, started. If it cannot be, `unable` tells why, as errno."""

    def __init__(
        self,
        words: Sequence[str],
        group: RunningGroup,
        *,
        environment: Mapping[str, str],
        directory: Path,
        output: int,
    ) -> None:
        """Run `words` on our own stdin and stderr, their stdout on the descriptor `output`.

        They run in the group's tree and in our process group.
        """
        services = group.services.values()
        self.words = filled_words(words, services, group.ports)
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.unable: int | None = None
        self._began = clock.now()
        self._duration_s = 0.0
        self._end_requested = False
        self._child: Child | None = None
        try:
            self._child = group.launch(
                self.words,
                environment=client_environment(environment, services),
                directory=directory,
                output=output,
                error=2,
                input=0,
                # It may read the terminal, and Ctrl-C must reach it.
                foreground=True,
            )
        except OSError as error:
            self.unable = error.errno
            return
        asyncio.get_running_loop().add_reader(self._child.pidfd, self._has_just_ended)

    def _has_just_ended(self) -> None:
        assert self._child is not None  # noqa: S101 - its pidfd became readable
        asyncio.get_running_loop().remove_reader(self._child.pidfd)
        self._duration_s = clock.now() - self._began
        self._child.wait()  # while the guardian can still answer: it ends with the group
        if not self.ended.done():
            self.ended.set_result(None)

    def has_ended(self) -> bool:
        """Whether it has, even if the event loop has not noticed yet."""
        if self._child is None:
            return False
        return self.ended.done() or has_ended(self._child.pidfd)

    def returncode(self) -> int | None:
        """As subprocess has it, once it has ended."""
        if self._child is None or not self.has_ended():
            return None
        return self._child.wait()

    async def end(self, number: signal.Signals, limit_s: float) -> None:
        """Ask it to end, and wait until it has or time is up."""
        if self._child is None or self.has_ended():
            return
        self._end_requested = True
        try:
            signal.pidfd_send_signal(self._child.pidfd, number)
        except ProcessLookupError:
            return
        await asyncio.wait({self.ended}, timeout=limit_s)

    async def follow(self, number: signal.Signals) -> None:
        """End it as we end; a signal from the terminal, or to our group, has reached it already."""
        if self._child is None:
            return
        self._end_requested = True
        limit_s = _BEFORE_ASKING_S
        if number is signal.SIGINT and in_foreground():
            limit_s = _AFTER_CTRL_C_S
        await asyncio.wait({self.ended}, timeout=limit_s)
        # Of the others only SIGTERM: a client may take SIGHUP or SIGQUIT for something else.
        if number is not signal.SIGINT:
            number = signal.SIGTERM
        await self.end(number, _LAST_S)

    def result(self) -> ClientRun:
        """What became of it, once nobody waits for it any more: its pidfd is closed then."""
        returncode = self.returncode()
        run = ClientRun(
            words=self.words,
            returncode=returncode,
            duration_s=self._duration_s or clock.now() - self._began,
            peak_rss=self._child.peak_rss if self._child is not None else None,
            end_requested=self._end_requested,
            unable=self.unable,
        )
        if self._child is not None:
            asyncio.get_running_loop().remove_reader(self._child.pidfd)
            self._child.close()
        return run
