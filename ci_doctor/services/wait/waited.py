# SPDX-License-Identifier: Apache-2.0
"""What to wait for, and how a wait stands and ended, as values. Pure."""

import signal
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from ci_doctor.model.service import ServiceFailure
from ci_doctor.services.descendant_end import DescendantPolicy
from ci_doctor.services.probes.ready import ReadinessProbe


class WaitRequest(Struct, frozen=True, kw_only=True):
    """What to wait for, for `limit_s` seconds: the `probe` of a process, while all of them live.

    These are the processes `pids`, or the one that `pidfile` will name. `environment` and `directory`
    are what probes work with.
    """

    probe: ReadinessProbe
    limit_s: float
    pids: tuple[int, ...] = ()
    pidfile: Path | None = None
    log: Path | None = None
    descendants: DescendantPolicy = "signal"
    environment: Mapping[str, str] = {}
    directory: Path = Path()


class WaitProgress(Struct, frozen=True, kw_only=True):
    """How it stands: `answer` is why it is not ready yet."""

    name: str
    waited_s: float
    answer: str


class Waited(Struct, frozen=True, kw_only=True):
    """How it ended: ready, unless there is a `failure` or a signal was `received`.

    `waited_s` counts from our start. `answer` is the last one on the way that was not good.
    """

    name: str
    pid: int | None
    waited_s: float
    failure: ServiceFailure | None = None
    received: signal.Signals | None = None
    answer: str = ""
