# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor cache save`."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from ci_doctor.commands.cache.options import (
    LOG_OPTION,
    SIGNERS_OPTION,
    TRUST,
    cache_options,
    store_options,
)
from ci_doctor.commands.documented import command, option
from ci_doctor.commands.options import pass_session
from ci_doctor.session.session import Session

if TYPE_CHECKING:
    from ci_doctor.commands.cache.setting import CacheSetting
    from ci_doctor.model.about import About
    from ci_doctor.model.facts.cache import SaveCacheFacts


@command(
    "save",
    section="cache",
    examples={
        "ci-doctor cache save --store s3://ci-caches/jit --key signing-key": "After the job's command: save, with a signature.",
    },
    exits={
        0: "saved, or a warning",
        2: "--strict: the extra `cache` is not installed",
        75: "--strict: a problem with the store",
    },
)
@store_options
@option(
    "--key",
    group=TRUST,
    metavar="FILE",
    help="The private key to sign with, for jobs of the default branch alone.",
)
@SIGNERS_OPTION
@LOG_OPTION
@cache_options
@pass_session
def save(
    session: Session,
    /,
    *,
    log: Path | None,
    python: str | None,
    config_path: Path | None,
    **flags: object,
) -> int:
    """Save what this job has compiled, for later jobs with the same identity.

    Only what changed is sent. Run it after a command that succeeded, and `cache verify --effect`
    before it.
    """
    session.claim()
    from ci_doctor.caches.outcomes import save_outcome
    from ci_doctor.commands.cache.setting import cache_setting

    setting = cache_setting(config_path, flags)
    facts = saved(setting, session.about, log, python)
    return session.finish(save_outcome(facts, strict=setting.settings.strict))


def saved(
    setting: "CacheSetting", about: "About", log: Path | None, python: str | None = None
) -> "SaveCacheFacts":
    """What was saved; a problem with the store is a part of the facts. Raises UsageError."""
    from ci_doctor.caches.receipt import machine_directory
    from ci_doctor.caches.save import SaveWork, run_save
    from ci_doctor.caches.targets import identify, targets_of
    from ci_doctor.commands.cache.job_facts import logs_of, origin_of, signer_of
    from ci_doctor.commands.cache.progress import TransferProgress
    from ci_doctor.config.decoding import seconds_above_zero
    from ci_doctor.model.facts.cache import SaveCacheFacts
    from ci_doctor.store.objects import StoreError

    settings = setting.settings
    targets = targets_of(settings.families, settings.own, os.environ)
    expires_s = seconds_above_zero(settings.expires, "expires")
    try:
        target = setting.trusted_store()
        work = SaveWork(
            caches=identify(targets, os.environ, python),
            target=target,
            scope=setting.scopes.write,
            signer=signer_of(setting),
            deadline=setting.deadline,
            state=machine_directory(os.environ),
            expires_s=expires_s,
            origin=origin_of(about, os.environ),
            logs=logs_of(log, targets),
            gpus=len(about.gpus),
        )
        with TransferProgress(setting.deadline.left()) as progress:
            return run_save(work, setting.deadline, progress)
    except StoreError as error:
        return SaveCacheFacts(
            store=setting.address(),
            scope=setting.scopes.write,
            is_signed=setting.has_key,
            is_accepted=True,
            caches=(),
            problem=error.message,
            failure=error.reason.value,
        )
