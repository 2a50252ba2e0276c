# SPDX-License-Identifier: Apache-2.0
"""Reads logs: turns the end of a script's server into a failure with its cause, and into words."""

import signal
from collections.abc import Iterable
from pathlib import Path

from msgspec import structs

from ci_doctor.model.facts.diagnose import WatchedDeath
from ci_doctor.model.facts.launch import ServiceFailure
from ci_doctor.render.formatting import amount, duration
from ci_doctor.services.failure_cause import died
from ci_doctor.services.instance import Death, Subject
from ci_doctor.system.processes.process_table import Kin
from ci_doctor.watch.judging import Process, Waiting
from ci_doctor.watch.losses import Loss


def failure_of(process: Process, port: int | None, living: Iterable[Kin]) -> ServiceFailure:
    """The failure of a server that ended, with the cause that its own log names."""
    ended = process.ended or process.born
    subject = Subject(
        name=process.name,
        pid=process.pid,
        port=port or next(iter(process.ports), 0),
        log=None if process.log is None else Path(process.log),
        was_ready=bool(process.ports),
        at=ended,
        duration_s=max(0.0, ended - process.born),
    )
    death = Death(
        returncode=process.returncode,
        oom=process.oom,
        host_oom=process.oom == "the host" and process.returncode == -signal.SIGKILL,
    )
    return died(subject, death, lambda: living, is_ours=False)


def lost(process: Process, loss: Loss, living: Iterable[Kin], said_s: float) -> WatchedDeath:
    """The death that was noticed at the end of a script that failed, `said_s` after its start.

    A server may end with code 0 because it is asked to: that is an end, and no more.
    """
    failure = failure_of(process, loss.port, living)
    if process.returncode == 0:
        age = duration(failure.duration_s)
        message = f"{process.name} ended {age} after its start: exit code 0"
        failure = structs.replace(failure, message=message)
    who = "the script" if loss.by is None else loss.by.name
    text = f"{who} failed {duration(loss.failed_s)} after that end"
    if loss.refusals:
        text += f", {amount(loss.refusals, 'connection')} to port {loss.port} refused since"
    if loss.other is not None:
        text += f"; it asked in vain for port {loss.other} before and after"
    return WatchedDeath(failure=failure, waits=text, said_s=said_s, port=loss.port, is_late=True)


def words_of(waiting: Waiting, place: str | None) -> str:
    """`the script waits for port 8000: 12 connections refused since; ci/serving.sh:12: until …`."""
    what = f"a line in {waiting.log}" if waiting.port is None else f"port {waiting.port}"
    text = f"the script still waits for {what}"
    if waiting.refusals:
        text += f", {amount(waiting.refusals, 'connection')} refused since"
    if waiting.by is not None:
        text += f", by {waiting.by.name}"
    return text if place is None else f"{text}; at {place}"
