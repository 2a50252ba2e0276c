# SPDX-License-Identifier: Apache-2.0
"""Pure. Which server of a script that failed had ended by itself before that, and what shows it.

No sign of a wait is asked for, as the script is over. What a clean-up ends is no loss.
"""

import signal
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from ci_doctor.watch.judging import (
    GRACE_S,
    LONG_GRACE_S,
    REPEATED,
    SETTLED_S,
    Listener,
    Process,
    foreground,
    is_background,
    is_bad,
    is_client,
    is_ender,
    is_pause,
    is_shell_or_wrapper,
    named_ports,
    ports_of,
    refused_later,
)

# The commands of a pipe are started together.
_PIPE_S: Final = 0.1
# Of a process that exits, the kernel closes the connections first: client and script may be gone before it is.
_EXIT_S: Final = 0.1
_KILLED: Final = frozenset({-signal.SIGKILL, 128 + signal.SIGKILL})
_CODES: Final = 128


class Loss(Struct, frozen=True, kw_only=True):
    """A server that had ended before its script failed.

    `by` is the command in the foreground that ran on without it, and failed; None if no look saw one.
    refusals: connections to `port` that were refused after its end. failed_s: from its end to the failure.
    other: the port that the script asked for in vain meanwhile; None if it did not.
    """

    port: int
    failed_s: float
    refusals: int = 0
    other: int | None = None
    by: Process | None = None


def front_at(death: Process, root: Process, living: Iterable[Process]) -> tuple[Process, ...]:
    """What ran in the foreground when it ended, the script first; of a pipe all its commands.

    `living` are those whose end was not noticed together with its own: nobody knows the order of those.
    """
    there = [each for each in living if each.born < death.alive]
    chain = foreground(root, there)
    beside = [
        each
        for each in there
        if each not in chain and (_listens_in_front(each, chain[-1]) or _is_of_pipe(each, chain))
    ]
    return (*chain, *beside)


def _listens_in_front(process: Process, last: Process) -> bool:
    """Whether a shell waits for this command, which listens itself, as pytest does for its reruns."""
    is_in_front = process.parent is last and last.is_shell and not is_background(process)
    return bool(process.ports) and is_in_front


def _is_of_pipe(process: Process, chain: Sequence[Process]) -> bool:
    return not process.ports and any(
        process.parent is it.parent and abs(process.born - it.born) < _PIPE_S for it in chain[1:]
    )


def loss_of(
    death: Process,
    recent: Sequence[Process],
    listeners: Iterable[Listener],
    refused: Mapping[int, Sequence[float]],
) -> Loss | None:
    """The loss of a process that had served, of a script that has failed; None if it may be none.

    `listeners` are all that ever were.
    """
    if death.ended is None or not death.ports or not death.front:
        return None
    over = death.front[0].ended
    if over is None or death.ended >= over:
        return None
    if any(each.port in death.ports and each.since > death.ended for each in listeners):
        return None
    clients = [each for each in death.front[1:] if _has_failed(each)]
    asked = refused_later(death, refused)
    other = _other_port(death, recent, refused)
    if other is None and not _is_own_end(death, recent, clients, asked, over):
        return None
    by = next((each for each in clients if not is_shell_or_wrapper(each)), None)
    failed = over if by is None or by.ended is None else by.ended
    return Loss(
        port=min(death.ports),
        by=by,
        refusals=len(asked),
        failed_s=max(0.0, failed - death.ended),
        other=other,
    )


def is_bad_end(
    death: Process, script: Process, recent: Iterable[Process], listeners: Iterable[Listener]
) -> bool:
    """Whether a job of a shell ended by a fault of its own before the script failed, or just then, and nobody served its port again.

    A command of a pipe is a part of what failed, and no job beside it. After a failure the script cleans up.
    """
    over = (script.ended or 0.0) + _EXIT_S
    if not is_bad(death) or death.ended is None or death.ended >= over:
        return False
    if not all(map(is_shell_or_wrapper, death.above())) or _had_failed(death, recent):
        return False
    is_in_pipe = any(
        each.startswith("pipe:") and each not in script.outputs for each in death.outputs
    )
    ports = ports_of(death)
    is_served = any(each.port in ports and each.since > death.ended for each in listeners)
    return not is_served and (bool(death.ports) or not is_in_pipe)


def _other_port(
    death: Process, recent: Iterable[Process], refused: Mapping[int, Sequence[float]]
) -> int | None:
    """The port for which the script asked in vain before a bad end and after it: in that loop it ended nobody.

    Others of this machine are refused, too: a client of the script names it.
    """
    if not is_bad(death):
        return None
    ended = death.ended or 0.0
    named = {port for each in recent if is_client(each) for port in named_ports(each.words)}
    for port in named - death.ports:
        times = refused.get(port, ())
        before = sum(death.born <= at < ended for at in times)
        if min(before, sum(at > ended for at in times)) >= REPEATED:
            return port
    return None


def _is_own_end(
    death: Process,
    recent: Sequence[Process],
    clients: Sequence[Process],
    asked: Sequence[float],
    over: float,
) -> bool:
    """Whether nobody of the script is likely to have asked it to end."""
    is_crash = bool(is_bad(death)) and not 0 < (death.returncode or 0) < _CODES
    if any(_has_in_hand(each, death) for each in death.above()):
        return is_crash and bool(clients)
    is_killed = death.returncode in _KILLED and not is_bad(death)
    if is_killed and _may_be_ended_by_another(death, recent):
        return False
    if not (is_bad(death) or is_killed or death.returncode == 0):
        return False
    running = [each for each in death.front if not each.is_shell and not is_ender(each)]
    length_s = (death.ended or 0.0) - max((each.born for each in running), default=over)
    if clients:
        # Without a refusal, an earlier `kill` may have taken its time.
        alone_s = 0.0 if is_crash else SETTLED_S if is_bad(death) else LONG_GRACE_S
        is_alone = death.returncode != 0 and length_s >= alone_s
        return bool(asked) or is_alone
    # What has failed was too short to be seen; a check after a clean-up is refused, too.
    is_at_once = bool(asked) and over - asked[0] <= LONG_GRACE_S
    is_before = is_crash or (death.returncode != 0 and length_s >= GRACE_S)
    return is_at_once and is_before and not _had_failed(death, recent)


def _has_failed(process: Process) -> bool:
    is_command = not process.is_shell and not is_pause(process) and not is_ender(process)
    return is_command and process.ended is not None and bool(process.returncode)


def _had_failed(death: Process, recent: Iterable[Process]) -> bool:
    """Whether another command of the foreground had failed before, and the script may have cleaned up."""
    return any(
        _has_failed(each)
        and (each.ended or 0.0) <= (death.ended or 0.0)
        and each.ended is not None
        and each.ended >= death.born + SETTLED_S
        and not is_client(each)
        and not is_background(each)
        for each in recent
        if each is not death
    )


def _has_in_hand(starter: Process, death: Process) -> bool:
    """Whether this program, which is above it, may have ended it: a test does that with its server."""
    is_program = not is_shell_or_wrapper(starter) and starter.program != "make"
    return is_program and (starter in death.front or not is_bad(starter))


def _may_be_ended_by_another(death: Process, recent: Iterable[Process]) -> bool:
    """Whether a command that ends others, or a shell in the background, was there at its end."""
    return any(
        (
            is_ender(each)
            or (each.is_shell and each not in death.front and each not in death.above())
        )
        and each.born <= (death.ended or 0.0)
        and (each.ended is None or each.ended >= (death.ended or 0.0) - SETTLED_S)
        for each in recent
    )
