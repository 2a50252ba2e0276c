# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor cache gc`."""

from pathlib import Path

import click

from ci_doctor.commands.cache.options import store_options
from ci_doctor.commands.documented import command, option
from ci_doctor.commands.options import (
    config_option,
    dry_run_option,
    output_options,
    pass_session,
)
from ci_doctor.session.session import Session


@command(
    "gc",
    section="cache",
    examples={
        "ci-doctor cache gc --store /mnt/caches --older-than 14d --dry-run": "Show what would be removed.",
    },
)
@option(
    "--keep",
    group="What is kept",
    type=click.IntRange(min=1),
    help="How many saved caches of each family and identity stay. [default: 3]",
)
@option(
    "--older-than",
    group="What is kept",
    metavar="TIME",
    help="Remove what is older. [default: 30d]",
)
@dry_run_option
@store_options
@config_option
@output_options
@pass_session
def gc(
    session: Session,
    /,
    *,
    older_than: str | None,
    dry_run: bool,
    config_path: Path | None,
    **flags: object,
) -> int:
    """Remove old caches from a store, and packs that none of the others needs.

    It may run beside jobs that save and restore: a pack goes in a second run, a day after the first.
    """
    session.claim()
    from ci_doctor.caches.leader import bounded
    from ci_doctor.caches.outcomes import collect_outcome
    from ci_doctor.commands.cache.setting import cache_setting
    from ci_doctor.config.decoding import seconds_above_zero
    from ci_doctor.model.facts.cache import CollectCacheFacts
    from ci_doctor.store.collect_garbage import GarbageRules, collect_garbage
    from ci_doctor.store.objects import StoreLimits
    from ci_doctor.system import clock

    setting = cache_setting(config_path, flags)
    store = setting.trusted_store().store
    rules = GarbageRules(
        keep=setting.settings.keep,
        older_than_ms=round(seconds_above_zero(older_than or "30d", "--older-than") * 1000),
        now_ms=round(clock.epoch() * 1000),
    )
    collected = bounded(
        lambda: collect_garbage(store, rules, StoreLimits(), dry_run=dry_run),
        setting.deadline.left(),
        "collecting garbage",
    )
    facts = CollectCacheFacts(
        store=store.location,
        is_dry_run=dry_run,
        manifests=collected.manifests,
        packs=collected.packs,
        freed_bytes=collected.freed_bytes,
        waiting=collected.waiting,
        waiting_bytes=collected.waiting_bytes,
        unreadable=collected.unreadable,
    )
    return session.finish(collect_outcome(facts), on_stdout=True)
