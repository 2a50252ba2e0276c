# SPDX-License-Identifier: Apache-2.0
"""What `ci-doctor correctness` does with its options."""

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from ci_doctor.commands.documented import DEFAULT_DIRECTORY
from ci_doctor.commands.progress import show_experiment
from ci_doctor.commands.run_record import record_environment, with_history
from ci_doctor.commands.teller import Teller
from ci_doctor.config.decoding import read_exit_codes
from ci_doctor.config.loading import load_config
from ci_doctor.correctness.planning import (
    ExperimentRequest,
    PreparedExperiment,
    parse_arm_variables,
    prepare,
    read_settings,
)
from ci_doctor.correctness.run import OnProgress, check_prepared, preview, run_prepared
from ci_doctor.correctness.settings import (
    BUILDKITE,
    Caches,
    CopiedCache,
    CorrectnessSettings,
    OnInconclusive,
)
from ci_doctor.environment.preparation import missing_preparation
from ci_doctor.errors import UsageError
from ci_doctor.model.outcome import Finding, Outcome, Verdict
from ci_doctor.session.delivery import ExitPolicy
from ci_doctor.session.session import Session
from ci_doctor.system.files.access import RECEIPTS, machine_place
from ci_doctor.system.processes.interruption import Interruption

if TYPE_CHECKING:
    from ci_doctor.caches.families import Family
    from ci_doctor.caches.trusted_store import Receipt


def restored_trees(caches: Caches) -> tuple[tuple[CopiedCache, ...], tuple[Finding, ...]]:
    """The trees to copy for each start, and what is to be said of others.

    With `fresh`, a restored cache is not used, which is a finding. Nothing of it raises.
    """
    from ci_doctor.caches.families import relocate
    from ci_doctor.caches.outcomes import IGNORED, NOT_COPIED

    restored = list(_restored())
    if caches is Caches.FRESH:
        names = ", ".join(family.name for family, _ in restored)
        sentence = f'caches = "fresh": each start ignores the restored caches of {names}'
        return (), (IGNORED.finding(sentence),) if restored else ()
    if caches is not Caches.RESTORED:
        return (), ()
    if not restored:
        sentence = 'caches = "restored": nothing was restored, so each start has empty caches'
        return (), (NOT_COPIED.finding(sentence),)
    trees = []
    findings = []
    for family, receipt in restored:
        # Its keys hold its directory, and each start has one of its own.
        if "cache.root" in family.path or family.variable is None:
            sentence = f"{family.name}: a copy in another directory would not be used"
            findings.append(NOT_COPIED.finding(sentence))
            continue
        tree = CopiedCache(
            variable=family.variable,
            subdirectory=family.subdirectory,
            tree=Path(receipt.root),
            rewrite=partial(relocate, family),
        )
        trees.append(tree)
    return tuple(trees), tuple(findings)


def _restored() -> Iterator[tuple["Family", "Receipt"]]:
    """The newest receipt of each family whose tree is still there."""
    from ci_doctor.caches.families import all_families
    from ci_doctor.caches.trusted_store import machine_directory, receipts_of
    from ci_doctor.store.objects import StoreError

    try:
        state = machine_directory(os.environ, make=False)
    except StoreError:
        return
    for family in all_families():
        for receipt in receipts_of(state, family.name)[:1]:
            if Path(receipt.root).is_dir():
                yield family, receipt


def run_experiment(
    session: Session,
    *,
    config_path: Path | None,
    dry_run: bool,
    check_requests: bool,
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
    if check_requests:
        # The one start is the baseline's: an archived one has no server to ask.
        candidate = settings.candidate or settings.baseline
        settings = replace(settings, candidate=candidate, archive=None, control=True)
    is_fanned_out = settings.fan_out == BUILDKITE
    if is_fanned_out:
        settings = of_one_job(settings, is_whole=not check_requests and resume is None)
    session.policy = _policy(settings, codes)
    request = ExperimentRequest(
        settings=settings,
        config=loaded,
        check_requests=check_requests,
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
        with Teller(prepared.redactor, group="ci-doctor correctness: starts") as tell:
            on_progress = partial(show_experiment, tell)
            if is_fanned_out:
                outcome = _fanned_out(prepared, on_progress, interruption)
            else:
                outcome = run_prepared(
                    prepared, on_progress, interruption=interruption, on_resumed=session.accept
                )
        # A job that hands on has made no run of its own.
        hands_on = is_fanned_out and outcome.verdict is None and outcome.error is None
        done = outcome if hands_on else with_history(session, loaded, outcome)
        return session.finish(done, on_stdout=True)


def of_one_job(settings: CorrectnessSettings, *, is_whole: bool) -> CorrectnessSettings:
    """The settings of one job of an experiment over a build. Raises UsageError."""
    from ci_doctor.correctness.asked_jobs import settings_of

    if not is_whole:
        raise UsageError(
            "--fan-out makes starts in other jobs, and --resume and --check-requests here",
            hint="leave one of them out, or write --fan-out local:N",
        )
    return settings_of(settings, os.environ)


def _fanned_out(
    prepared: PreparedExperiment, on_progress: OnProgress, interruption: Interruption
) -> Outcome:
    from ci_doctor.correctness.fan_out import run_fanned_out

    return run_fanned_out(prepared, os.environ, on_progress, interruption)


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
