# SPDX-License-Identifier: Apache-2.0
"""Reads the configuration: what of the environment a run records, and its last green run."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from ci_doctor.drift.reading import SnapshotRequest
    from ci_doctor.drift.recording import RunRecord
    from ci_doctor.model.outcome import Outcome
    from ci_doctor.session.addition import Addition
    from ci_doctor.session.session import Session

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
    from ci_doctor.system.processes.limited_calls import ForkedCall

    def prepare() -> "RunRecord":
        return _run_record(session, config_path, interpreter)

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
    import ci_doctor.commands.history_database
    import ci_doctor.drift.recording  # noqa: F401


def snapshot_request(
    session: "Session", config_path: Path | None, flags: Mapping[str, Any]
) -> "SnapshotRequest":
    """What a snapshot is to hold, by `[doctor]` and `flags`. Raises UsageError."""
    request, _ = _configured(session, config_path, flags)
    return request


def _run_record(
    session: "Session", config_path: Path | None, interpreter: "Callable[[], Path] | None"
) -> "RunRecord":
    from msgspec.structs import replace

    from ci_doctor.drift.reading import take_snapshot
    from ci_doctor.drift.recording import RunRecord

    further = () if interpreter is None else (str(interpreter()),)
    request, since_green = _configured(session, config_path, {}, further)
    request = replace(request, gpu_limit_s=_GPU_LIMIT_S)
    return RunRecord(
        take=lambda: take_snapshot(request),
        green_path=since_green,
    )


def _configured(
    session: "Session",
    config_path: Path | None,
    flags: Mapping[str, Any],
    further: tuple[str, ...] = (),
) -> tuple["SnapshotRequest", Path | None]:
    """The request, with `further` interpreters, and the place of the last green run if one is named."""
    from ci_doctor.checks.settings import DoctorSettings
    from ci_doctor.config.decoding import decode_section, path_in
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
