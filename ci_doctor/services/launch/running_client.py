# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: the command that runs under a group of services, in the foreground."""

import asyncio
import os
import select
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ci_doctor.services.launch.client import client_environment, filled_words
from ci_doctor.services.launch.launched import ClientRun
from ci_doctor.services.running import RunningGroup
from ci_doctor.system import clock

if TYPE_CHECKING:
    from ci_doctor.system.processes.process import Child

# After a signal to ourselves: what the client has, of the agent's 10 s, once it was told by us; where Ctrl-C has told it;
# and what it has before we tell it, because the same signal may have gone to our whole process group.
_LAST_S = 1.0
_AFTER_CTRL_C_S = 2.0
_HEARD_S = 0.1


class RunningClient:
    """The command under the services, started. Where it cannot be, `unable` says why, as errno."""

    def __init__(
        self,
        words: Sequence[str],
        group: RunningGroup,
        *,
        environment: Mapping[str, str],
        directory: Path,
        output: int,
    ) -> None:
        """Run `words` on our own stdin and stderr, their stdout on `output`, in the group's tree and our process group."""
        services = group.services.values()
        self.words = filled_words(words, services)
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.unable: int | None = None
        self._began = clock.now()
        self._duration_s = 0.0
        self._told = False
        self._child: Child | None = None
        try:
            self._child = group.launch(
                self.words,
                environment=client_environment(environment, services),
                directory=directory,
                output=output,
                error=2,
                input=0,
                foreground=True,
            )
        except OSError as error:
            self.unable = error.errno
            return
        asyncio.get_running_loop().add_reader(self._child.pidfd, self._has_just_ended)

    def _has_just_ended(self) -> None:
        assert self._child is not None  # noqa: S101 - it is what has ended
        asyncio.get_running_loop().remove_reader(self._child.pidfd)
        self._duration_s = clock.now() - self._began
        self._child.wait()  # ask while somebody can still answer: the guardian ends with the group
        if not self.ended.done():
            self.ended.set_result(None)

    def has_ended(self) -> bool:
        """Whether it has, be it that nobody was told so far."""
        return self._child is not None and (self.ended.done() or _is_readable(self._child.pidfd))

    def returncode(self) -> int | None:
        """As subprocess has it, once it has ended."""
        return self._child.wait() if self._child is not None and self.has_ended() else None

    async def end(self, number: signal.Signals, limit_s: float) -> None:
        """Ask it to end, and wait until it has or time is up."""
        if self._child is None or self.has_ended():
            return
        self._told = True
        try:
            signal.pidfd_send_signal(self._child.pidfd, number)
        except ProcessLookupError:
            return
        await asyncio.wait({self.ended}, timeout=limit_s)

    async def follow(self, number: signal.Signals) -> None:
        """End as we do. What came from the terminal, or to our group, it has been told already."""
        if self._child is None:
            return
        self._told = True
        by_terminal = number is signal.SIGINT and _in_foreground()
        await asyncio.wait({self.ended}, timeout=_AFTER_CTRL_C_S if by_terminal else _HEARD_S)
        await self.end(number if number is signal.SIGINT else signal.SIGTERM, _LAST_S)

    def result(self) -> ClientRun:
        """What became of it; afterwards it is nobody's."""
        returncode = self.returncode()
        run = ClientRun(
            words=self.words,
            returncode=returncode,
            duration_s=self._duration_s or clock.now() - self._began,
            peak_rss=self._child.peak_rss if self._child is not None else None,
            told=self._told,
            unable=self.unable,
        )
        if self._child is not None:
            asyncio.get_running_loop().remove_reader(self._child.pidfd)
            self._child.close()
        return run


def _is_readable(descriptor: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))


def _in_foreground() -> bool:
    """Whether Ctrl-C on our terminal reaches our whole process group, and so the client too."""
    try:
        return any(
            os.isatty(number) and os.tcgetpgrp(number) == os.getpgrp() for number in (0, 1, 2)
        )
    except OSError:
        return False
