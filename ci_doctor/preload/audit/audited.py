# SPDX-License-Identifier: Apache-2.0
"""Acts on processes, reads source files: audits one package of one interpreter."""

import gc
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from ci_doctor.errors import UsageError
from ci_doctor.preload.audit.analysis import Analysis, AuditedStart
from ci_doctor.preload.audit.entry_points import EntryPoint, entry_points
from ci_doctor.preload.audit.installed import find_package
from ci_doctor.preload.audit.library import Library
from ci_doctor.preload.audit.limits import Limits
from ci_doctor.preload.audit.merged import merged
from ci_doctor.preload.audit.package_audit import AuditRequest, PackageAudit
from ci_doctor.preload.audit.resolver import Resolver
from ci_doctor.preload.audit.sources import SourceTree

# Modules import each other hundreds deep, and each costs some ten calls.
_DEPTH: Final = 100_000
_STACK_BYTES: Final = 256 * 2**20


def audit_package(
    python: Path, request: AuditRequest, *, tell: Callable[[str], None] = lambda _: None
) -> PackageAudit:
    """Audit the package for `python`; `tell` gets the name of each entry point before it begins.

    Raises UsageError for a package, module or entry point that is not there, InfraError if the
    interpreter does not answer.
    """
    began = time.monotonic()
    package = find_package(python, request.package)
    if not package.tops:
        raise UsageError(
            f"{python} has no package {request.package}",
            hint="name an installed distribution or a module; --venv DIR names the environment",
        )
    tree = SourceTree(package.path, package.redirected)
    follow = [each.partition(".")[0] for each in request.follow]
    for name in follow:
        if tree.find(name) is None:
            raise UsageError(f"--follow {name}: {python} has no such package", hint="leave it out")
    library = Library(
        tree,
        {*(top.partition(".")[0] for top in package.tops), *follow},
        stdlib=package.stdlib,
        version=package.python_version,
    )
    entries = _chosen(entry_points(package, library, request.triggers), request, library)
    limits = Limits()

    def over() -> bool:
        if time.monotonic() - began > request.timeout_s:
            limits.is_cut = True
        return limits.is_cut

    starts = _analysed(library, limits, over, entries, tell)
    missing = [entry for entry in entries if library.followed_code(entry.module) is None]
    return PackageAudit(
        python=python,
        package=package,
        entries=entries,
        starts=merged(starts),
        limits=limits,
        unread=dict(library.unread),
        missing=tuple(entry for entry in missing if not _is_namespace(library, entry)),
        modules=library.parsed,
        seconds=time.monotonic() - began,
    )


def _chosen(
    entries: Sequence[EntryPoint], request: AuditRequest, library: Library
) -> tuple[EntryPoint, ...]:
    for trigger in request.triggers:
        module = trigger.partition(":")[0]
        if not library.follows(module) or library.find(module) is None:
            raise UsageError(
                f"--trigger {trigger}: {request.package} has no such module",
                hint="name a module of the package, or of one named by --follow",
            )
    if not request.entries:
        return tuple(entries)
    labels = {entry.label for entry in entries}
    for name in request.entries:
        if name not in labels:
            raise UsageError(
                f"--entry {name}: {request.package} has no such entry point",
                hint=f"it has: {', '.join(sorted(labels))}",
            )
    return tuple(entry for entry in entries if entry.label in request.entries)


def _is_namespace(library: Library, entry: EntryPoint) -> bool:
    module = library.find(entry.module)
    return module is not None and module.file is None and module.is_package


def _analysed(
    library: Library,
    limits: Limits,
    over: Callable[[], bool],
    entries: Sequence[EntryPoint],
    tell: Callable[[str], None],
) -> list[AuditedStart]:
    starts: list[AuditedStart] = []
    failed: list[BaseException] = []

    def work() -> None:
        analysis = Analysis(Resolver(library), limits, over)
        try:
            for entry in entries:
                tell(entry.label)
                starts.extend(analysis.entry(entry))
        except RecursionError:
            limits.is_cut = True
        except BaseException as error:  # noqa: BLE001 - raised again below
            failed.append(error)

    with _deep_calls():
        thread = threading.Thread(target=work, name="preload-audit", daemon=True)
        thread.start()
        try:
            thread.join()
        except BaseException:
            # A signal: the thread must not hold up the report.
            limits.is_cut = True
            raise
    if failed:
        raise failed[0]
    return starts


@contextmanager
def _deep_calls() -> Iterator[None]:
    """Deep recursion, and no garbage collection: syntax trees are many objects, and all stay."""
    depth = sys.getrecursionlimit()
    size = threading.stack_size(_STACK_BYTES)
    was_enabled = gc.isenabled()
    gc.disable()
    sys.setrecursionlimit(_DEPTH)
    try:
        yield
    finally:
        sys.setrecursionlimit(depth)
        threading.stack_size(size)
        if was_enabled:
            gc.enable()
