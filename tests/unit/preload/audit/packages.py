# SPDX-License-Identifier: Apache-2.0
"""Packages on disk, and their audit without an interpreter."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from ci_doctor.preload.audit.analysis import Analysis
from ci_doctor.preload.audit.entry_points import EntryPoint
from ci_doctor.preload.audit.library import Library
from ci_doctor.preload.audit.limits import Limits
from ci_doctor.preload.audit.merged import MergedStart, merged
from ci_doctor.preload.audit.resolver import Resolver
from ci_doctor.preload.audit.sources import SourceTree


def write(directory: Path, files: Mapping[str, str]) -> Path:
    """Write files by their relative path; packages get an empty `__init__.py`."""
    for name, text in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        for parent in path.relative_to(directory).parents:
            init = directory / parent / "__init__.py"
            if parent != Path() and not init.exists():
                init.write_text("")
    return directory


def audit(
    directory: Path,
    files: Mapping[str, str],
    entry: str = "pkg.cli:main",
    *,
    follow: Sequence[str] = ("pkg",),
    is_main: bool = False,
) -> tuple[MergedStart, ...]:
    """The thread starts that `module:function` of these files reaches."""
    starts, _ = audit_with_limits(directory, files, entry, follow=follow, is_main=is_main)
    return starts


def audit_with_limits(
    directory: Path,
    files: Mapping[str, str],
    entry: str = "pkg.cli:main",
    *,
    follow: Sequence[str] = ("pkg",),
    is_main: bool = False,
) -> tuple[tuple[MergedStart, ...], Limits]:
    """As `audit`, with what was not followed."""
    tree = SourceTree([str(write(directory, files))], {})
    library = Library(tree, follow, stdlib=sys.stdlib_module_names)
    limits = Limits()
    module, _, attribute = entry.partition(":")
    point = EntryPoint(label=entry, module=module, attribute=attribute, is_main=is_main)
    found = Analysis(Resolver(library), limits, lambda: False).entry(point)
    return merged(found), limits
