# SPDX-License-Identifier: Apache-2.0
"""Acts on processes and signals: waits for a command in the foreground, and stops it for a signal to us."""

import asyncio
import contextlib
import signal as signals
from collections.abc import Awaitable, Callable

from ci_doctor.system.processes.interruption import Interruption, in_foreground
from ci_doctor.system.processes.process import Child
from ci_doctor.system.processes.tree import OwnTree

# After a signal to us: its sender may have signalled our whole process group, the command included.
# Wait a moment for that, so as not to send the signal twice.
_GROUP_SIGNAL_S = 0.1


async def until_its_end(
    child: Child,
    tree: OwnTree,
    interruption: Interruption,
    limits_s: tuple[float, float, float],
    wait: Callable[["asyncio.Future[None]"], Awaitable[None]],
) -> signals.Signals | None:
    """Let `wait` wait for the future that is done once `child` has ended; the signal that cut it off.

    limits_s: how long the command may take to end by itself after Ctrl-C at its terminal, after our
    own signal to it, and its whole `tree` after that. A second signal ends this wait too: the caller
    kills what is left.
    """
    task = asyncio.current_task()
    assert task is not None  # noqa: S101 - a coroutine runs in a task
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()
    loop.add_reader(child.pidfd, _settle, ended)
    try:
        with interruption.watch(task):
            try:
                await wait(ended)
            except asyncio.CancelledError:
                if interruption.received is None:
                    raise
                # Within `watch`: a second signal must be able to cancel the stop.
                await _stop(child, tree, ended, interruption.received, limits_s)
                return interruption.received
    finally:
        loop.remove_reader(child.pidfd)
    return None


async def _stop(
    child: Child,
    tree: OwnTree,
    ended: "asyncio.Future[None]",
    received: signals.Signals,
    limits_s: tuple[float, float, float],
) -> None:
    after_ctrl_c_s, after_signal_s, grace_s = limits_s
    # Of the others only SIGTERM: a program may take SIGHUP or SIGQUIT for something else.
    is_ctrl_c = received is signals.SIGINT
    with contextlib.suppress(asyncio.CancelledError, ProcessLookupError):
        own_time_s = after_ctrl_c_s if is_ctrl_c and in_foreground() else _GROUP_SIGNAL_S
        await asyncio.wait({ended}, timeout=own_time_s)
        if not ended.done():
            number = signals.SIGINT if is_ctrl_c else signals.SIGTERM
            signals.pidfd_send_signal(child.pidfd, number)
            await asyncio.wait({ended}, timeout=after_signal_s)
        await tree.terminate(grace_s)


def _settle(ended: "asyncio.Future[None]") -> None:
    if not ended.done():
        ended.set_result(None)
