# SPDX-License-Identifier: Apache-2.0
"""What `ci-doctor correctness` does with its options."""

import os
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from ci_doctor.commands.environment_record import record_environment
from ci_doctor.commands.history_database import with_history
from ci_doctor.commands.telling.experiment import ExperimentSource
from ci_doctor.commands.telling.teller import Teller
from ci_doctor.config.exit_codes import read_exit_codes
from ci_doctor.config.loading import load_config
from ci_doctor.correctness.planning import parse_arm_variables, read_settings
from ci_doctor.correctness.preparation import ExperimentRequest, PreparedExperiment, prepare
from ci_doctor.correctness.run import check_prepared, preview, run_prepared
from ci_doctor.correctness.settings import Caches, CorrectnessSettings, OnInconclusive
from ci_doctor.environment.preparation import missing_preparation
from ci_doctor.errors import UsageError
from ci_doctor.model.verdict import Verdict
from ci_doctor.session.exit_policy import ExitPolicy
from ci_doctor.session.session import Session
from ci_doctor.system.files.own_directory import RECEIPTS, machine_place
from ci_doctor.system.processes.interruption import Interruption

DEFAULT_DIRECTORY = Path("ci-doctor-report")


def run_experiment(
    session: Session,
    *,
    config_path: Path | None,
    dry_run: bool,
    resume: str | None,
    only: tuple[str, ...],
    variables: tuple[str, ...],
    **flags: Any,
) -> int:
    """The exit code. Raises UsageError and InfraError as the room does."""
    if resume is not None:
        _check_resume(session, Path(resume))
    directory = _directory(session, resume, dry_run=dry_run)
    loaded = load_config(config_path, Path.cwd())
    settings = read_settings(loaded, os.environ, flags, parse_arm_variables(variables))
    codes, _ = read_exit_codes(loaded, os.environ)
    session.policy = _policy(settings, codes)
    request = ExperimentRequest(
        settings=settings,
        config=loaded,
        only=only,
        resume=resume is not None,
        argv=session.invocation.argv,
        began=session.invocation.started,
    )
    if dry_run:
        return session.finish(preview(request, directory=directory), on_stdout=True)
    session.observe(*missing_preparation(loaded, os.environ))
    prepared = prepare(request, directory, os.environ)
    prepared = _with_restored(session, prepared)
    if resume is not None:
        _hold_resumed(session, prepared, directory)
    session.hide(*prepared.service_environments())
    record_environment(session, config_path)
    interruption = Interruption()
    # The signals stay handled until the report is out: none may take it away.
    with interruption.handling():
        source = ExperimentSource()
        with Teller(source, prepared.redactor, group="ci-doctor correctness: starts") as tell:
            outcome = run_prepared(
                prepared, tell, interruption=interruption, on_resumed=session.accept
            )
        return session.finish(with_history(session, loaded, outcome), on_stdout=True)


def _check_resume(session: Session, resumed: Path) -> None:
    """A run that is refused keeps its report. Raises UsageError."""
    session.protect()
    named = session.named_directory
    # By where it leads: `rep`, `./rep` and a link to it are one directory.
    if named is None or named.resolve() == resumed.resolve():
        return
    raise UsageError(
        f"--resume goes on in {resumed}, and --report-dir names {named}",
        hint="leave --report-dir out, or name the same directory",
    )


def _directory(session: Session, resume: str | None, *, dry_run: bool) -> Path:
    """The report directory of the run; that of a new run is claimed."""
    if resume is not None:
        return Path(resume)
    if dry_run:
        return DEFAULT_DIRECTORY
    # Before anything else: no report of an earlier run may outlive this one, however it ends.
    return session.claim(DEFAULT_DIRECTORY) or DEFAULT_DIRECTORY


def _with_restored(session: Session, prepared: PreparedExperiment) -> PreparedExperiment:
    """With the restored caches that its starts get; most machines have none, and load nothing for it."""
    caches = prepared.plan.caches
    is_fresh_beside_some = caches is Caches.FRESH and _has_receipts()
    if caches is not Caches.RESTORED and not is_fresh_beside_some:
        return prepared
    from ci_doctor.commands.correctness.restored import restored_trees

    trees, findings = restored_trees(caches)
    session.observe(*findings)
    return replace(prepared, plan=replace(prepared.plan, restored=trees))


def _has_receipts() -> bool:
    """Whether a cache was restored on this machine."""
    try:
        return any((machine_place(os.environ) / RECEIPTS).iterdir())
    except OSError:
        return False


def _hold_resumed(session: Session, prepared: PreparedExperiment, directory: Path) -> None:
    """Hold the directory of a run, and leave it as it is until the run is accepted."""
    check_prepared(prepared)
    session.named_directory = directory
    session.claim(clear=False)


def _policy(settings: CorrectnessSettings, codes: dict[str, int]) -> ExitPolicy:
    let_through = frozenset[Verdict]()
    if settings.on_inconclusive is OnInconclusive.PASS:
        let_through = frozenset({Verdict.INCONCLUSIVE})
    return ExitPolicy(codes=codes, fail_on_flaky=settings.fail_on_flaky, let_through=let_through)
