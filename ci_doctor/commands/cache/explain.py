# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor cache explain`."""

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
    "explain",
    section="cache",
    examples={
        "ci-doctor cache explain --store /mnt/caches --family triton": "Show why a saved cache is not valid here.",
    },
)
@store_options
@TRUST_OPTION
@SIGNERS_OPTION
@cache_options
@pass_session
def explain(
    session: Session, /, *, python: str | None, config_path: Path | None, **flags: object
) -> int:
    """Print the identity of each cache, fact by fact, and where the nearest saved one differs."""
    session.claim()
    from ci_doctor.caches.leader import bounded
    from ci_doctor.caches.look import explain as explain_cache
    from ci_doctor.caches.outcomes import explain_outcome
    from ci_doctor.caches.targets import identify, targets_of
    from ci_doctor.commands.cache.setting import cache_setting
    from ci_doctor.model.facts.cache import ExplainCacheFacts

    setting = cache_setting(config_path, flags)
    settings = setting.settings
    targets = targets_of(settings.families, settings.own, os.environ)
    source = setting.trusted_store() if settings.store is not None else None
    caches = identify(targets, os.environ, python)

    def look() -> ExplainCacheFacts:
        rows = tuple(explain_cache(cache, source) for cache in caches)
        return ExplainCacheFacts(store=settings.store, caches=rows)

    facts = bounded(look, setting.deadline.left(), "looking at the store")
    return session.finish(explain_outcome(facts), on_stdout=True)
