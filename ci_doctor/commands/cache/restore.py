# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor cache restore`."""

import os
from pathlib import Path

import click

from ci_doctor.commands.cache.options import (
    SIGNERS_OPTION,
    TRUST_OPTION,
    cache_options,
    store_options,
)
from ci_doctor.commands.options import pass_session
from ci_doctor.session.session import Session


@click.command("restore")
@store_options
@TRUST_OPTION
@SIGNERS_OPTION
@cache_options
@pass_session
def restore(
    session: Session,
    /,
    *,
    python: str | None,
    config_path: Path | None,
    **flags: object,
) -> int:
    """Restore the caches that earlier jobs saved, if they are valid on this machine.

    Of all processes of this user on this machine that ask for the same, one transfers; the others
    wait and have its result. A problem is a warning, and the job goes on without a cache.
    """
    session.claim()
    from ci_doctor.caches.machine_directory import machine_directory
    from ci_doctor.caches.outcomes.restored import restore_outcome
    from ci_doctor.caches.restore import RestoreWork
    from ci_doctor.caches.run_restore import run_restore
    from ci_doctor.caches.targets import identify, targets_of
    from ci_doctor.commands.cache.progress import TransferProgress
    from ci_doctor.commands.cache.setting import cache_setting
    from ci_doctor.model.facts.cache import RestoreCacheFacts
    from ci_doctor.store.errors import StoreError

    setting = cache_setting(config_path, flags)
    settings = setting.settings
    targets = targets_of(settings.families, settings.own, os.environ)
    try:
        source = setting.trusted_store()
        work = RestoreWork(
            caches=identify(targets, os.environ, python),
            source=source,
            deadline=setting.deadline,
            state=machine_directory(os.environ),
            job=os.environ.get("BUILDKITE_JOB_ID"),
        )
        with TransferProgress(setting.deadline.left()) as progress:
            facts = run_restore(work, setting.deadline, progress)
    except StoreError as error:
        facts = RestoreCacheFacts(
            store=setting.address(),
            is_shared=False,
            caches=(),
            problem=error.message,
            failure=error.reason.value,
        )
    return session.finish(restore_outcome(facts, strict=settings.strict))
