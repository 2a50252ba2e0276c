# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: starts a command below us, with the streams of its channels."""

import errno
import os
from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

from ci_doctor.system.relay.channel import Channel


class CommandRefusedError(OSError):
    """The system does not run the command (execve(2)); `errno` says why."""


def start(
    command: tuple[str, ...],
    environ: Mapping[str, str],
    channels: Sequence[Channel],
    prepare: Callable[[], None],
) -> int:
    """The pid of `command`, which runs. `prepare` is called in the new process before.

    Raises CommandRefusedError if the command cannot be run, and OSError if no process is left for
    it.
    """
    refusals, refusal = os.pipe()
    pid = os.fork()
    if pid == 0:
        _become(command, environ, channels, prepare, refusal)
    os.close(refusal)
    try:
        # The kernel closes the other end when the command runs.
        reason = os.read(refusals, 16)
    finally:
        os.close(refusals)
    if reason:
        os.waitpid(pid, 0)
        number = int(reason)
        raise CommandRefusedError(number, os.strerror(number), command[0])
    return pid


def _become(
    command: tuple[str, ...],
    environ: Mapping[str, str],
    channels: Sequence[Channel],
    prepare: Callable[[], None],
    refusal: int,
) -> NoReturn:
    reason = errno.ENOEXEC
    try:
        for channel in channels:
            for number in channel.numbers:
                os.dup2(channel.inlet, number)
        prepare()
        os.execvpe(command[0], command, environ)  # noqa: S606 - becoming the command is the point
    except OSError as error:
        reason = error.errno or errno.ENOEXEC
    except ValueError:  # an empty name
        reason = errno.ENOENT
    finally:
        os.write(refusal, str(reason).encode())
        os._exit(127)
