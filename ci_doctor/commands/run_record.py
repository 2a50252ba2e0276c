# SPDX-License-Identifier: Apache-2.0
"""Reads the configuration: what a run records of its environment and in the history."""

import contextlib
import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from msgspec.structs import replace

from ci_doctor.commands.teller import Teller
from ci_doctor.config.decoding import decode_section, path_in
from ci_doctor.config.loading import Config
from ci_doctor.errors import CiDoctorError
from ci_doctor.history.address import DatabaseAddress, HistorySettings, database_address
from ci_doctor.model.facts.history import HISTORY_TITLE
from ci_doctor.model.outcome import ErrorKind, Outcome, text_table
from ci_doctor.session.session import Session
from ci_doctor.system.processes.interruption import Interruption

if TYPE_CHECKING:
    from ci_doctor.drift.reading import SnapshotRequest
    from ci_doctor.drift.recording import RunRecord
    from ci_doctor.session.delivery import Addition


class WarmUp:
    """Begin when something has been started; wait before the report is made."""

    def __init__(self, load: Callable[[], None] | None = None) -> None:
        """`load` imports what the room's own part of the report needs."""
        self._load = load
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Start to load; further calls do nothing."""
        if self._thread is None:
            # A daemon: a command that is interrupted does not wait for imports.
            self._thread = threading.Thread(target=self._run, name="ci-doctor-warm-up", daemon=True)
            with contextlib.suppress(RuntimeError):  # no more threads on this machine
                self._thread.start()

    def wait(self) -> None:
        """Wait until all is loaded, if it was begun."""
        if self._thread is not None and self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        # What fails here fails again where it is needed, and is reported there.
        with contextlib.suppress(Exception):
            if self._load is not None:
                self._load()
            _render_once()


def _render_once() -> None:
    """Render a report with every kind of part, to load the modules and compile their patterns."""
    from ci_doctor.model.outcome import (
        Attachment,
        Attempt,
        Case,
        CaseOutcome,
        Evidence,
        Finding,
        Report,
        Severity,
        Verdict,
    )
    from ci_doctor.render import RENDERERS
    from ci_doctor.system.secrets.redaction import Redactor
    from ci_doctor.version import tool_version

    evidence = Evidence(
        file="logs/warm-1.log", line=1, end_line=2, excerpt="  a line\n> \x1b[1mits\x1b[0m root"
    )
    finding = Finding(
        rule="warm/up",
        severity=Severity.ERROR,
        summary="warm died",
        evidence=(evidence,),
        remedy="see `less warm`",
    )
    report = Report(
        tool_version=tool_version(),
        command="launch",
        argv=("launch", "--", "warm"),
        started_at="2026-01-01T00:00:00.000Z",
        duration_s=0.0,
        verdict=Verdict.FAILED,
        exit_code=1,
        summary="warm",
        reproduce="ci-doctor launch",
        findings=(finding,),
        facts={"services": {"warm": {"pid": 1}}},
        cases=(Case(group="services", name="warm", outcome=CaseOutcome.FAILED, message="died"),),
        attempts=(Attempt(name="warm", outcome="died", ok=False, duration_s=0.0, log="warm"),),
        attachments=(Attachment(path="warm", title="warm"),),
    )
    report = Redactor(()).report(report)
    for renderer in RENDERERS:
        if renderer.is_for(report):
            renderer.render(report)


_FILE = "environment.json"
# Of the two seconds that a report waits.
_GPU_LIMIT_S = 1.0


def record_environment(
    session: "Session",
    config_path: Path | None,
    interpreter: "Callable[[], Path] | None" = None,
) -> None:
    """Write the environment beside the report, and after a failure what changed since a green run.

    `interpreter` gives the Python that runs the job; without it that is the one of a job's environment,
    as `snapshot_targets` finds it. The ones that `[doctor]` names are recorded too. It is read from now on, so
    call this before anything is started; nothing is read without a report directory.
    """
    if session.directory is None:
        return
    from ci_doctor.system.processes.limited_runs import ForkedCall

    def prepare() -> "RunRecord":
        from ci_doctor.drift.reading import take_snapshot
        from ci_doctor.drift.recording import RunRecord

        further = () if interpreter is None else (str(interpreter()),)
        request, since_green = _configured(session, config_path, {}, further)
        request = replace(request, gpu_limit_s=_GPU_LIMIT_S)
        return RunRecord(
            take=lambda: take_snapshot(request),
            green_path=since_green,
        )

    def read() -> bytes:
        # Here, in the other process: the first start must not wait for imports.
        from ci_doctor.drift.recording import recorded

        return recorded(prepare())

    begun = ForkedCall.begin(read)

    def add(outcome: "Outcome") -> "Addition":
        from ci_doctor.drift.recording import addition

        return addition(outcome, prepare, begun=begun, in_haste=_is_in_haste(outcome))

    session.complete_with(add, _FILE)


def _is_in_haste(outcome: "Outcome") -> bool:
    """Whether a signal or the death of a service ended the run: whoever waits wants to know at once."""
    if outcome.error is not None:
        return True
    from ci_doctor.services.findings import DESCENDANT_DIED, DIED, FATAL_LINE, OOM_KILLED

    deaths = {rule.id for rule in (DIED, DESCENDANT_DIED, OOM_KILLED, FATAL_LINE)}
    return any(finding.rule in deaths for finding in outcome.findings)


def load_record() -> None:
    """Import what a command with a record needs at its end, while a job runs: a WarmUp calls it."""
    import ci_doctor.drift.recording  # noqa: F401


class Watch(NamedTuple):
    """What a command has while its services run."""

    tell: Teller
    interruption: Interruption
    warm_up: WarmUp


def perform(
    session: Session,
    loaded: Config,
    group: str,
    work: Callable[[Watch], Outcome],
    *,
    on_stdout: bool = False,
) -> int:
    """Do the work, and deliver its report; `group` is the title of its progress in the log of a CI."""
    watch = Watch(
        Teller(session.redactor, group=group),
        Interruption(),
        WarmUp(load_record if session.directory else None),
    )
    # The signals stay handled until the report is out: none may take it away.
    with watch.interruption.handling():
        with watch.tell:
            outcome = work(watch)
        watch.warm_up.wait()
        return session.finish(with_history(session, loaded, outcome), on_stdout=on_stdout)


def snapshot_request(
    session: "Session", config_path: Path | None, flags: Mapping[str, Any]
) -> "SnapshotRequest":
    """What a snapshot is to hold, by `[doctor]` and `flags`. Raises UsageError."""
    request, _ = _configured(session, config_path, flags)
    return request


def _configured(
    session: "Session",
    config_path: Path | None,
    flags: Mapping[str, Any],
    further: tuple[str, ...] = (),
) -> tuple["SnapshotRequest", Path | None]:
    """The request, with `further` interpreters, and the place of the last green run if one is named."""
    from ci_doctor.checks.settings import DoctorSettings
    from ci_doctor.config.loading import load_config
    from ci_doctor.drift.reading import SnapshotRequest, snapshot_targets

    cwd = Path.cwd()
    loaded = load_config(config_path, cwd)
    settings, origins = decode_section(
        loaded, "doctor", DoctorSettings, environ=os.environ, flags=flags
    )
    venvs = [str(path_in(loaded, origins["venvs"], word)) for word in settings.venvs]
    request = SnapshotRequest(
        pythons=snapshot_targets([*settings.pythons, *further], venvs, cwd, os.environ),
        environ=dict(os.environ),
        cwd=cwd,
        about=session.about,
        redactor=session.redactor,
    )
    if not settings.since_green:
        return request, None
    return request, path_in(loaded, origins["since_green"], settings.since_green)


_SIGNALS: Final = frozenset(
    {ErrorKind.SIGINT, ErrorKind.SIGTERM, ErrorKind.SIGHUP, ErrorKind.SIGQUIT}
)


def configured_history(
    loaded: Config, flags: Mapping[str, Any]
) -> tuple[HistorySettings, DatabaseAddress | None]:
    """The settings, and the database; None if nobody names one. Raises ConfigError, UsageError."""
    settings, origins = decode_section(
        loaded, "history", HistorySettings, environ=os.environ, flags=flags
    )
    if not settings.database:
        return settings, None
    address = database_address(settings.database)
    if address.file is None:
        return settings, address
    return settings, DatabaseAddress(file=path_in(loaded, origins["database"], str(address.file)))


def with_history(session: Session, loaded: Config, outcome: Outcome) -> Outcome:
    """`outcome`, with how often its cause was seen before; the run goes into the history.

    Without `[history] database` nothing happens, nor after a signal: nobody waits for a database
    then. What goes wrong is a line of the report: it changes neither verdict nor exit code.
    """
    if outcome.error is not None and outcome.error.kind in _SIGNALS:
        return outcome
    try:
        _, address = configured_history(loaded, {})
    except CiDoctorError as error:
        line = text_table(HISTORY_TITLE, (f"not written: {error.message}",))
        return replace(outcome, tables=(*outcome.tables, line))
    if address is None:
        return outcome
    from ci_doctor.history.recording import record
    from ci_doctor.session.delivery import make_report

    report = make_report(outcome, (), session.invocation, about=session.about, policy=None)
    table = record(address, session.redactor.report(report), session.redactor.text)
    return replace(outcome, tables=(*outcome.tables, table))


def history_lines(outcome: Outcome) -> tuple[str, ...]:
    """What `with_history` has added, for a command that prints no tables. Pure."""
    tables = [table for table in outcome.tables if table.title == HISTORY_TITLE]
    return tuple(row.label for table in tables for row in table.rows)
