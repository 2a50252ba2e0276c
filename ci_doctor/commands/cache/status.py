# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor cache status`."""

import os
from pathlib import Path

from ci_doctor.commands.cache.options import (
    SIGNERS_OPTION,
    TRUST_OPTION,
    cache_options,
    store_options,
)
from ci_doctor.commands.documented import command
from ci_doctor.commands.options import pass_session
from ci_doctor.session.session import Session


@command(
    "status",
    section="cache",
    examples={
        "ci-doctor cache status --store /mnt/caches": "Show the caches, and what a restore would do.",
    },
)
@store_options
@TRUST_OPTION
@SIGNERS_OPTION
@cache_options
@pass_session
def status(
    session: Session, /, *, python: str | None, config_path: Path | None, **flags: object
) -> int:
    """Show where the caches lie, which were restored from where, and what a restore would do."""
    session.claim()
    from ci_doctor.caches.leader import bounded
    from ci_doctor.caches.look import status_row
    from ci_doctor.caches.outcomes import status_outcome
    from ci_doctor.caches.receipt import machine_directory
    from ci_doctor.caches.targets import identify, targets_of
    from ci_doctor.commands.cache.setting import cache_setting
    from ci_doctor.model.facts.cache import CacheStatusFacts

    setting = cache_setting(config_path, flags)
    settings = setting.settings
    targets = targets_of(settings.families, settings.own, os.environ)
    source = setting.trusted_store() if settings.store is not None else None
    state = machine_directory(os.environ)
    caches = identify(targets, os.environ, python)

    def look() -> CacheStatusFacts:
        rows = tuple(status_row(cache, state, source) for cache in caches)
        return CacheStatusFacts(store=settings.store, caches=rows)

    facts = bounded(look, setting.deadline.left(), "looking at the store")
    return session.finish(status_outcome(facts), on_stdout=True)
