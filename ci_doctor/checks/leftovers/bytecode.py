# SPDX-License-Identifier: Apache-2.0
"""Reads the checkout: bytecode of modules that are gone, which can still be imported."""

import os
from collections.abc import Iterator
from pathlib import Path

from ci_doctor.checks.check import CheckResult, DoctorCheck, Need, problem
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.leftovers.rules import STALE_BYTECODE
from ci_doctor.model.finding import Evidence, ShellCommand
from ci_doctor.render.formatting import amount

# Folders that are looked into. A larger checkout takes longer than a check may.
_LIMIT = 4000
_SHOWN = 10
# What is not the checkout's own code.
_SKIPPED = frozenset({".git", ".venv", "venv", "node_modules", "site-packages", ".tox", ".nox"})
_CACHE = "__pycache__"
# An empty folder is a package, too.
_REMOVAL = (
    "git clean -xdf -- '*.pyc' '*__pycache__*' "
    "&& find . -type d -empty -not -path './.git/*' -delete"
)


def _run(context: CheckContext) -> CheckResult:
    count = 0
    lines: list[str] = []
    for folder, folders, files in os.walk(context.cwd):
        count += 1
        lines += _stale(Path(folder), folders, files)
        folders[:] = [name for name in folders if name not in _SKIPPED and name != _CACHE]
        if count == _LIMIT:
            break
    extent = f"{amount(count, 'folder')} of {context.cwd}"
    if not lines:
        return CheckResult(summary=f"none in {extent}")
    summary = f"bytecode without its source: {lines[0]}"
    if len(lines) > 1:
        summary += f" and {len(lines) - 1} more"
    shown = "\n".join(lines[:_SHOWN])
    remedy = ShellCommand(_REMOVAL)
    fault = problem(STALE_BYTECODE, summary, evidence=(Evidence(excerpt=shown),), remedy=remedy)
    return CheckResult(summary=f"{len(lines)} in {extent}", problems=(fault,))


def _stale(folder: Path, folders: list[str], files: list[str]) -> Iterator[str]:
    """A `.pyc` that is found without its source, and a folder that is a package by its cache alone."""
    for name in files:
        # Python imports it as a module if there is no source (importlib, SourcelessFileLoader).
        if name.endswith(".pyc") and f"{name[:-1]}" not in files:
            yield str(folder / name)
    if folders == [_CACHE] and not files:
        yield f"{folder} holds only {_CACHE}"


CHECK = DoctorCheck(
    id="leftovers/bytecode",
    title="bytecode of modules that are gone",
    need=Need.GIT_CHECKOUT,
    run=_run,
)
