# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor cache restore`."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from ci_doctor.commands.cache.options import (
    SIGNERS_OPTION,
    TRUST_OPTION,
    cache_options,
    store_options,
)
from ci_doctor.commands.documented import command
from ci_doctor.commands.options import pass_session
from ci_doctor.session.session import Session

if TYPE_CHECKING:
    from ci_doctor.commands.cache.setting import CacheSetting
    from ci_doctor.model.facts.cache import RestoreCacheFacts


@command(
    "restore",
    section="cache",
    examples={
        "ci-doctor cache restore --store s3://ci-caches/jit --trust signed --allowed-signers ci/signers": "Before the job's command: restore what an allowed signer saved.",
        "ci-doctor cache restore --store /mnt/caches --family triton": "Restore one kind of cache from a directory.",
    },
    exits={
        0: "restored, or a warning",
        1: "--strict: a cache is refused, such as one without an accepted signature",
        2: "--strict: the extra `cache` is not installed",
        75: "--strict: a problem with the store",
        86: "--strict: nothing was restored",
    },
)
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

    If several processes of this user on one machine ask for the same caches, one of them transfers.
    The others wait and have its result. A problem is a warning: the job goes on without a cache.
    """
    session.claim()
    from ci_doctor.caches.outcomes import restore_outcome
    from ci_doctor.commands.cache.setting import cache_setting

    setting = cache_setting(config_path, flags)
    facts = restored(setting, python)
    return session.finish(restore_outcome(facts, strict=setting.settings.strict))


def restored(setting: "CacheSetting", python: str | None = None) -> "RestoreCacheFacts":
    """What was restored; a problem with the store is a part of the facts. Raises UsageError."""
    from ci_doctor.caches.receipt import machine_directory
    from ci_doctor.caches.restore import RestoreWork, run_restore
    from ci_doctor.caches.targets import identify, targets_of
    from ci_doctor.commands.cache.progress import TransferProgress
    from ci_doctor.model.facts.cache import RestoreCacheFacts
    from ci_doctor.store.objects import StoreError

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
            return run_restore(work, setting.deadline, progress)
    except StoreError as error:
        return RestoreCacheFacts(
            store=setting.address(),
            is_shared=False,
            caches=(),
            problem=error.message,
            failure=error.reason.value,
        )
