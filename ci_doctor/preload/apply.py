# SPDX-License-Identifier: Apache-2.0
"""Acts on files and processes: carries out the plan for a site directory, and can undo it."""

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from ci_doctor.errors import UsageError
from ci_doctor.model.action import FileState, WriteFile
from ci_doctor.preload.bytecode import CACHE, compile_module, is_compiled
from ci_doctor.preload.shim_files import MODULES, PATH_FILE
from ci_doctor.preload.start import prove_start, start
from ci_doctor.preload.target import Target
from ci_doctor.system.files.atomic import write_atomically


class SiteSnapshot(Struct, frozen=True, kw_only=True):
    """The files at the paths of some actions: content and time of last change (ns), or None.

    `had_cache`: there was a directory for bytecode.
    """

    site_dir: Path
    files: dict[Path, tuple[bytes, int] | None]
    had_cache: bool


def changes(actions: Sequence[WriteFile]) -> bool:
    """Whether carrying them out would change anything."""
    return any(action.state is not FileState.UNCHANGED for action in actions)


def remember(actions: Sequence[WriteFile], target: Target) -> SiteSnapshot:
    """What `put_back` needs in order to undo `actions`."""
    cache = target.site_dir / CACHE
    paths = [action.path for action in actions if action.path != cache]
    # `put_back` removes it first, even if no action is about it.
    paths.append(target.site_dir / PATH_FILE)
    # Bytecode of other interpreters goes too when its source is replaced.
    paths += _compiled(target.site_dir, MODULES)
    files = {path: _content(path) for path in paths}
    return SiteSnapshot(site_dir=target.site_dir, files=files, had_cache=cache.is_dir())


def apply(actions: Sequence[WriteFile], target: Target) -> None:
    """Carry out `actions` in their order, and prove that the target still starts.

    Raises PreparationError if it does not start cleanly with the shim, UsageError if a file cannot
    be written. What was done until then stays, for `put_back`.
    """
    if not changes(actions):
        return
    clean = start(target) if _arms(actions) else None
    for action in actions:
        _carry_out(action, target)
    if clean is not None:
        prove_start(target, clean)


def put_back(before: SiteSnapshot) -> None:
    """Restore the files."""
    path_file = before.site_dir / PATH_FILE
    # First of all, so that no start in between imports a module that is gone.
    _remove(path_file)
    for path in list(_compiled(before.site_dir, MODULES)):
        _remove(path)
    for path, content in before.files.items():
        if path != path_file:
            _restore(path, content)
    _restore(path_file, before.files.get(path_file))
    if not before.had_cache:
        _remove_empty(before.site_dir / CACHE)


def _arms(actions: Sequence[WriteFile]) -> bool:
    """Whether the `.pth` file exists afterwards."""
    for action in actions:
        if action.path.name == PATH_FILE and action.state is not FileState.REMOVE:
            return True
    return False


def _carry_out(action: WriteFile, target: Target) -> None:
    path = action.path
    if action.state is FileState.UNCHANGED:
        return
    if path == target.site_dir / CACHE:
        _remove_empty(path)
    elif action.state is FileState.REMOVE:
        _remove(path)
    elif path.parent.name == CACHE:
        _compile(path, target)
    else:
        if path.name in MODULES:
            # An interpreter accepts bytecode if its source has the same second and size; the new
            # source may have both.
            for compiled in list(_compiled(target.site_dir, (path.name,))):
                _remove(compiled)
        write_atomically(path, action.content)


def _compile(path: Path, target: Target) -> None:
    """Write the bytecode of a module.

    If that fails, every start by a user who may not write there pays 1.5 ms; that is no reason to
    stop.
    """
    name = f"{path.name.partition('.')[0]}.py"
    bytecode = compile_module(target, name)
    if bytecode is not None:
        with contextlib.suppress(UsageError):
            write_atomically(path, bytecode)


def _compiled(site_dir: Path, modules: Sequence[str]) -> Iterator[Path]:
    """The bytecode of `modules`, of any interpreter."""
    cache = site_dir / CACHE
    if cache.is_symlink():
        return
    for name in modules:
        for path in cache.glob(f"{Path(name).stem}.*"):
            if is_compiled(path.name):
                yield path


def _content(path: Path) -> tuple[bytes, int] | None:
    if not path.is_file() or path.is_symlink():
        return None
    return path.read_bytes(), path.stat().st_mtime_ns


def _restore(path: Path, before: tuple[bytes, int] | None) -> None:
    if before is None:
        _remove(path)
        return
    content, changed_ns = before
    if _content(path) != before:
        write_atomically(path, content)
        os.utime(path, ns=(changed_ns, changed_ns))


def _remove_empty(directory: Path) -> None:
    # Other packages may keep their bytecode there by now.
    with contextlib.suppress(OSError):
        directory.rmdir()


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise UsageError(
            f"cannot remove {path}: {error.strerror or error}", hint="run as the user who owns it"
        ) from error
