# SPDX-License-Identifier: Apache-2.0
"""Reads logs: turns the end of a script's server into a failure with its cause, and into words."""

import signal
from collections.abc import Iterable
from pathlib import Path

from ci_doctor.model.service import ServiceFailure
from ci_doctor.render.formatting import amount
from ci_doctor.services.failure_cause import died
from ci_doctor.services.instance import Death, Subject
from ci_doctor.system.processes.process_table import Kin
from ci_doctor.watch.judging import Process, Waiting


def failure_of(process: Process, waiting: Waiting, living: Iterable[Kin]) -> ServiceFailure:
    """The failure of a server that ended, with the cause that its own log names."""
    ended = process.ended or process.born
    subject = Subject(
        name=process.name,
        pid=process.pid,
        port=waiting.port or next(iter(process.ports), 0),
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


def words_of(waiting: Waiting, place: str | None) -> str:
    """`the script waits for port 8000: 12 connections refused since; ci/serving.sh:12: until …`."""
    what = f"a line in {waiting.log}" if waiting.port is None else f"port {waiting.port}"
    text = f"the script still waits for {what}"
    if waiting.refusals:
        text += f", {amount(waiting.refusals, 'connection')} refused since"
    if waiting.by is not None:
        text += f", by {waiting.by.name}"
    return text if place is None else f"{text}; at {place}"
