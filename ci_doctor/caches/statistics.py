# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: what a library counts of its own cache."""

import os
from pathlib import Path

from ci_doctor.caches.families.family import Family
from ci_doctor.caches.families.kernel_rows import CCACHE
from ci_doctor.system.processes.limited_runs import run_limited

_TIMEOUT_S = 10
HITS = "hits"
MISSES = "misses"
# `ccache --print-stats` (ccache 3.7 and later): a name, a tab, a number. Before 4.0 hits have these names too.
_HITS = frozenset({"direct_cache_hit", "preprocessed_cache_hit"})
_MISSES = frozenset({"cache_miss"})


def keeps_counts(family: Family) -> bool:
    """Whether the library counts hits and misses itself."""
    return family.name == CCACHE.name


def read_counts(family: Family, directory: Path) -> dict[str, int] | None:
    """Hits and misses since the cache was made; None if the library counts none that can be read."""
    if not keeps_counts(family):
        return None
    environ = {**os.environ, "CCACHE_DIR": str(directory)}
    try:
        run = run_limited(
            ["ccache", "--print-stats"], timeout_s=_TIMEOUT_S, cwd=Path("/"), environ=environ
        )
    except OSError:
        return None
    if run.exit_code != 0:
        return None
    return _counted(run.stdout)


def _counted(text: str) -> dict[str, int] | None:
    counts: dict[str, int] = {}
    for line in text.splitlines():
        name, _, number = line.partition("\t")
        if number.strip().isdigit():
            counts[name] = int(number)
    if "cache_miss" not in counts:
        return None
    return {
        HITS: sum(counts.get(name, 0) for name in _HITS),
        MISSES: sum(counts.get(name, 0) for name in _MISSES),
    }
