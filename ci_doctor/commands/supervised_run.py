# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor run --diagnose -- CMD`."""

import contextlib
import os
import resource
import signal
import sys
from typing import TYPE_CHECKING

from ci_doctor.commands.refusal import refused
from ci_doctor.session.session import Session
from ci_doctor.supervision.run import SupervisionRequest, run
from ci_doctor.system.relay import CommandRefusedError

if TYPE_CHECKING:
    from ci_doctor.config.loading import Config


def run_supervised(session: Session, request: SupervisionRequest, loaded: "Config") -> int:
    """Run the command beside us, report how it ended, and end as it did.

    A failure goes into the history, if there is one.

    Returns 126 or 127 if the system does not run it, as if we had become it.
    """
    session.show(request.prepared)
    try:
        supervised = run(request, session.redactor)
    except CommandRefusedError as error:
        code = session.finish(request.prepared, text="")
        return code or refused(request.command[0], error.errno or 0)
    outcome, text = supervised.outcome, supervised.text
    if supervised.is_explained:
        # Whoever succeeds needs none of this.
        from ci_doctor.commands.history_database import history_lines, with_history

        outcome = with_history(session, loaded, outcome)
        text += "".join(f"history: {line}\n" for line in history_lines(outcome))
    code = session.finish(outcome, text=text)
    if supervised.signal is not None:
        _end_by(supervised.signal)
    return code


def _end_by(number: int) -> None:
    """End this process by that signal; returns if it does not end us (the first of a container)."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    # A dump would show ci-doctor, not the command. 1 and not 0: that holds for pipes too (core(5)).
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    if hard != 0:
        resource.setrlimit(resource.RLIMIT_CORE, (1, hard))
    # SIGKILL takes no handler, and needs none.
    with contextlib.suppress(OSError):
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
