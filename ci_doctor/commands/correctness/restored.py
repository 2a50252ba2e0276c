# SPDX-License-Identifier: Apache-2.0
"""Reads the receipts of `cache restore`: what each start of an experiment may have a copy of."""

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from ci_doctor.caches.families import all_families
from ci_doctor.caches.family import Family, relocate
from ci_doctor.caches.outcomes import IGNORED, NOT_COPIED
from ci_doctor.caches.receipt import Receipt, machine_directory, receipts_of
from ci_doctor.correctness.settings import Caches, CopiedCache
from ci_doctor.model.finding import Finding
from ci_doctor.store.objects import StoreError


def restored_trees(caches: Caches) -> tuple[tuple[CopiedCache, ...], tuple[Finding, ...]]:
    """The trees to copy for each start, and what is to be said of others.

    With `fresh`, a restored cache is not used, which is a finding. Nothing of it raises.
    """
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
        trees.append(_tree(family, family.variable, receipt))
    return tuple(trees), tuple(findings)


def _tree(family: Family, variable: str, receipt: Receipt) -> CopiedCache:
    return CopiedCache(
        variable=variable,
        subdirectory=family.subdirectory,
        tree=Path(receipt.root),
        rewrite=partial(relocate, family),
    )


def _restored() -> Iterator[tuple[Family, Receipt]]:
    """The newest receipt of each family whose tree is still there."""
    try:
        state = machine_directory(os.environ, make=False)
    except StoreError:
        return
    for family in all_families():
        for receipt in receipts_of(state, family.name)[:1]:
            if Path(receipt.root).is_dir():
                yield family, receipt
