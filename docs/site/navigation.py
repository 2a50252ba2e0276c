# SPDX-License-Identifier: Apache-2.0
"""Pure. The place of each page on the site: what a reader wants, and the pages that answer it.

A page is named from the root of the repository, without `.md`. `*` stands for any name. A name or a pattern that matches nothing is
left out. A page that nothing matches has no place, which is a failing test: add it to the group where a reader looks for it.
"""

from collections.abc import Collection
from fnmatch import fnmatchcase

HOME = "README"
# The first match counts, so a name stands before a pattern that it matches too.
GROUPS: dict[str, tuple[str, ...]] = {
    "Start": ("docs/install", "docs/tutorial", "docs/init", "docs/glossary"),
    "How do I": ("docs/how-do-i", "docs/how-do-i/index", "docs/how-do-i/README", "docs/how-do-i/*"),
    "Recipes": (
        "docs/recipes",
        "docs/recipes/*",
        "examples/recipes/README",
        "examples/recipes/*/README",
    ),
    "Examples": (
        "examples/tiny-llm/README",
        "examples/*/README",
    ),
    "Commands: prepare a job": (
        "docs/doctor",
        "docs/setup-env",
        "docs/drift",
        "docs/lint",
        "docs/preload",
        "docs/compat",
    ),
    "Commands: run it": (
        "docs/run",
        "docs/pytest",
        "docs/flaky-kinds",
        "docs/launch",
        "docs/wait",
        "docs/probes",
        "docs/restart-check",
        "docs/cache",
        "docs/cache-store",
    ),
    "Commands: compare answers": (
        "docs/correctness",
        "docs/compare",
        "docs/replay",
        "docs/localise-bisect",
        "docs/answers",
        "docs/archive",
    ),
    "Commands: explain and report": (
        "docs/diagnose",
        "docs/import-race",
        "docs/report",
        "docs/build",
        "docs/history",
        "docs/ci-logs",
    ),
    "On a CI system": (
        "docs/buildkite",
        "buildkite_plugins/ci-doctor/README",
        "docs/github",
        "docs/github-actions",
        "docs/action",
    ),
    "Reference": (
        "docs/commands",
        "docs/commands*",
        "docs/commands/*",
        "docs/configuration",
        "docs/environment",
        "docs/exit-codes",
        "docs/findings",
        "docs/lint-rules",
        "docs/diagnose-rules",
        "docs/doctor-checks",
    ),
    "Explanation": ("docs/statistics", "docs/design"),
    "Project": (
        "CHANGELOG",
        "benchmarks/RESULTS",
        "CONTRIBUTING",
        "docs/releasing",
        "SECURITY",
        "CODE_OF_CONDUCT",
    ),
}


def placed(pages: Collection[str]) -> dict[str, list[str]]:
    """The groups with those of `pages` that stand in them, in the order of the table; a group without a page is left out."""
    free = sorted(set(pages) - {HOME})
    exact = {pattern for patterns in GROUPS.values() for pattern in patterns}
    placed_pages: dict[str, list[str]] = {}
    for group, patterns in GROUPS.items():
        for pattern in patterns:
            # What is named anywhere stands there, and not in an earlier group whose pattern matches it too.
            matching = [
                page
                for page in free
                if page == pattern or (page not in exact and fnmatchcase(page, pattern))
            ]
            placed_pages.setdefault(group, []).extend(matching)
            free = [page for page in free if page not in matching]
    return {group: names for group, names in placed_pages.items() if names}


def without_place(pages: Collection[str]) -> list[str]:
    """Those of `pages` that no group names."""
    everything = {page for names in placed(pages).values() for page in names}
    return sorted(set(pages) - everything - {HOME})
