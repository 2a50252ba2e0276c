# SPDX-License-Identifier: Apache-2.0
"""Acts on signals and stderr: runs what a hook adds to a job whose result is not ours."""

import sys
from collections.abc import Callable
from typing import TypeVar

import click

from ci_doctor.render.safe_text import printable
from ci_doctor.session.failure import outcome_of
from ci_doctor.system.processes.limited_calls import TimeIsUp, time_limit

T = TypeVar("T")


def harmlessly(work: Callable[[], T], limit_s: float, consequence: str) -> T | None:
    """What `work` returns; None, and a line on stderr, if it raises or takes `limit_s` seconds.

    consequence: what does not happen then, to end the line.
    """
    try:
        with time_limit(limit_s):
            return work()
    except TimeIsUp:
        reason = f"it took more than {limit_s:g} s"
    # The job's result is not ours, whatever breaks here, and whoever ends us.
    except BaseException as error:  # noqa: BLE001
        reason = outcome_of(error, sys.argv[1:]).summary
    say(f"{reason}; {consequence}")
    return None


def say(sentence: str) -> None:
    """Print one line on stderr; what it quotes cannot end it."""
    line = printable(sentence).replace("\n", " ")
    try:
        click.echo(f"ci-doctor: {line}", err=True)
    # Nobody can read it; the job's result does not depend on that.
    except (OSError, ValueError):
        return
