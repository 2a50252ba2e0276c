# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor cache verify`."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from ci_doctor.commands.cache.options import (
    CACHES,
    LOG_OPTION,
    SIGNERS_OPTION,
    TRUST_OPTION,
    cache_options,
    store_options,
)
from ci_doctor.commands.documented import command, option
from ci_doctor.commands.options import pass_session
from ci_doctor.session.session import Session

if TYPE_CHECKING:
    from ci_doctor.caches.targets import CacheTarget
    from ci_doctor.commands.cache.setting import CacheSetting
    from ci_doctor.model.facts.cache import CacheEffectFacts, VerifyCacheFacts


@command(
    "verify",
    section="cache",
    examples={
        "ci-doctor cache verify --effect --log server.log": "Say whether the restored caches have paid.",
        "ci-doctor cache verify --store /mnt/caches": "Read a store against its digests.",
    },
    exits={
        0: "intact, or with --effect whatever it is without --strict",
        1: "the store is damaged; --effect --strict: a restored cache is inert",
        86: "nothing was restored or saved; --effect --strict: there is no proof",
    },
)
@option(
    "--effect",
    group=CACHES,
    is_flag=True,
    help="Say whether what was restored has paid: paid, partly or inert. Run it after the job's "
    "command, and before `cache save`.",
)
@LOG_OPTION
@store_options
@TRUST_OPTION
@SIGNERS_OPTION
@cache_options
@pass_session
def verify(
    session: Session,
    /,
    *,
    effect: bool,
    log: Path | None,
    python: str | None,
    config_path: Path | None,
    **flags: object,
) -> int:
    """Read restored caches against their receipts, and the store against its digests.

    With --effect, from what was compiled after the restore, and how long that took.
    """
    session.claim()
    from ci_doctor.caches.outcomes import effect_outcome, verify_outcome
    from ci_doctor.caches.receipt import machine_directory
    from ci_doctor.caches.targets import targets_of
    from ci_doctor.commands.cache.setting import cache_setting

    del python  # the receipts have the identity
    setting = cache_setting(config_path, flags)
    settings = setting.settings
    if effect:
        outcome = effect_outcome(effects(setting, log), strict=settings.strict)
        return session.finish(outcome, on_stdout=True)
    targets = targets_of(settings.families, settings.own, os.environ)
    verified = _verified(setting, targets, machine_directory(os.environ))
    return session.finish(verify_outcome(verified), on_stdout=True)


def effects(setting: "CacheSetting", log: Path | None) -> "CacheEffectFacts":
    """Whether what was restored has paid. Raises UsageError, StoreError."""
    from ci_doctor.caches.outcomes import effect_facts
    from ci_doctor.caches.prove import ProofWork, prove_all
    from ci_doctor.caches.receipt import machine_directory
    from ci_doctor.caches.targets import targets_of
    from ci_doctor.commands.cache.job_facts import logs_of

    targets = targets_of(setting.settings.families, setting.settings.own, os.environ)
    work = ProofWork(
        targets=targets,
        state=machine_directory(os.environ),
        job=os.environ.get("BUILDKITE_JOB_ID"),
        logs=logs_of(log, targets),
    )
    return effect_facts(prove_all(work))


def _verified(
    setting: "CacheSetting", targets: tuple["CacheTarget", ...], state: Path
) -> "VerifyCacheFacts":
    """The restored trees, and the store if one is named. Raises StoreError, UsageError."""
    from ci_doctor.caches.leader import bounded
    from ci_doctor.caches.trusted_store import verify_installed, verify_store
    from ci_doctor.model.facts.cache import VerifyCacheFacts

    place = setting.settings.store
    installed = verify_installed(targets, state)
    if place is None:
        return VerifyCacheFacts(store=None, caches=installed)
    source = setting.trusted_store()
    names = tuple(target.family.name for target in targets)
    whole = bounded(
        lambda: verify_store(source, names, setting.deadline),
        setting.deadline.left(),
        "verifying the store",
    )
    return VerifyCacheFacts(
        store=place,
        caches=installed,
        manifests=whole.manifests,
        packs=whole.packs,
        bytes=whole.bytes,
        damaged=whole.damaged,
    )
