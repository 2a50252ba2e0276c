# SPDX-License-Identifier: Apache-2.0
"""What the end of a process below a service means, and how often to scan for them. Pure."""

import signal
from typing import Literal, assert_never

from msgspec import Struct

from ci_doctor.system.processes.process_table import Kin

SHORTEST_S = 0.05
LONGEST_S = 1.0
_LONGEST_QUIET_S = 2.0

DescendantPolicy = Literal["signal", "exit", "ignore"]


class DescendantEnd(Struct, frozen=True, kw_only=True):
    """A process below a service that has ended, noticed `at` that monotonic second.

    `returncode` is as subprocess has it, None if the system does not tell. With `root_ended` the
    service's own process had ended or was about to: the end of this one may follow from that.
    """

    kin: Kin
    returncode: int | None
    at: float
    root_ended: bool


def is_death(policy: DescendantPolicy, returncode: int | None, *, root_ended: bool) -> bool:
    """Whether the end of a process below a service is a death of the service.

    "signal": only if a signal ended it, since compilers come and go; "exit": every exit but 0 too.
    A process below a service that has itself ended is no cause, nor is an unknown end. Nor is
    SIGPIPE, by which every `yes | head` of a start script ends.
    """
    if root_ended or returncode is None or returncode == -signal.SIGPIPE:
        return False
    match policy:
        case "signal":
            return returncode < 0
        case "exit":
            return returncode != 0
        case "ignore":
            return False
        case _:
            assert_never(policy)


def next_pause(previous_s: float, cost_s: float, *, changed: bool) -> float:
    """Seconds until the next scan, after one that took `cost_s` seconds.

    It is soon while the tree changes, then ever later. Scans take at most a 40th of the time while
    the tree changes, and a 1000th once it has been quiet for a while; an expensive one is never put
    off for longer than two seconds.
    """
    if changed:
        return min(max(SHORTEST_S, 40 * cost_s), LONGEST_S)
    return max(SHORTEST_S, min(2 * previous_s, 1000 * cost_s, _LONGEST_QUIET_S))
