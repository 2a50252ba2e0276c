# SPDX-License-Identifier: Apache-2.0
"""How a launch ended, as values. Pure."""

import signal
from pathlib import Path

from msgspec import Struct

from ci_doctor.model.service import ServiceFailure, StopResult
from ci_doctor.services.launch.record import ServiceRun


class ClientRun(Struct, frozen=True, kw_only=True):
    """The client: its words as run, `returncode` as subprocess has it.

    None stands for an unknown end, and for one that was never run.
    `unable` tells why it could not be run, as errno. `end_requested` tells that ci-doctor asked it
    to end, so that its end is no news.
    """

    words: tuple[str, ...]
    returncode: int | None = None
    duration_s: float = 0.0
    peak_rss: int | None = None
    end_requested: bool = False
    unable: int | None = None

    @property
    def name(self) -> str:
        """`pytest` for `/usr/bin/pytest`."""
        return Path(self.words[0]).name


class Launched(Struct, frozen=True, kw_only=True):
    """How it ended: by a `failure`, by the signal `received`, or by the client's own end.

    `failure` is the root cause. `late` is a service that ended in the moment in which the client
    ended well. `stopped` is None if nothing is known of the stop. `hurried` tells that what was
    killed had no time to end by itself.
    """

    services: tuple[ServiceRun, ...]
    failure: ServiceFailure | None = None
    late: ServiceFailure | None = None
    received: signal.Signals | None = None
    client: ClientRun | None = None
    stopped: StopResult | None = None
    hurried: bool = False
