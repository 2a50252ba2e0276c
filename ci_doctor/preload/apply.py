# SPDX-License-Identifier: Apache-2.0
"""Acts on files and processes: carries out what was planned for a site directory, and can take it back."""

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from ci_doctor.errors import UsageError
from ci_doctor.model.action import FileState, WriteFile
from ci_doctor.preload.bytecode import CACHE, compile_module, is_compiled
from ci_doctor.preload.shim_files import MODULES, PATH_FILE
from ci_doctor.preload.start import prove_start, start
from ci_doctor.preload.target import Target
from ci_doctor.system.files.atomic import write_atomically


class Before(Struct, frozen=True, kw_only=True):
    """What lay at the paths of some actions: content and time of last change (ns), or None; and whether there was a cache."""

    site_dir: Path
    files: dict[Path, tuple[bytes, int] | None]
    had_cache: bool


def changes(actions: Sequence[WriteFile]) -> bool:
    """Whether carrying them out would change anything."""
    return any(action.state is not FileState.UNCHANGED for action in actions)


def remember(actions: Sequence[WriteFile], target: Target) -> Before:
    """What `put_back` needs in order to undo `actions`."""
    cache = target.site_dir / CACHE
    files = {action.path: _content(action.path) for action in actions if action.path != cache}
    # Bytecode of other interpreters goes too when its source is replaced.
    files |= {path: _content(path) for path in _compiled(target.site_dir, MODULES)}
    return Before(site_dir=target.site_dir, files=files, had_cache=cache.is_dir())


def apply(actions: Sequence[WriteFile], target: Target) -> None:
    """Carry out `actions` in their order, and prove that the target still starts.

    Raises PreparationError where it does not start cleanly with the shim, UsageError where a file cannot be written; what
    was done until then stays, for `put_back`.
    """
    if not changes(actions):
        return
    arms = any(
        action.path.name == PATH_FILE and action.state is not FileState.REMOVE for action in actions
    )
    clean = start(target) if arms else None
    for action in actions:
        _carry_out(action, target)
    if clean is not None:
        prove_start(target, clean)


def put_back(before: Before) -> None:
    """Make the files what they were: first the `.pth` goes, at last it returns."""
    path_file = before.site_dir / PATH_FILE
    _remove(path_file)
    for path in _compiled(before.site_dir, MODULES):
        _remove(path)
    for path, content in sorted(before.files.items(), key=lambda item: item[0] == path_file):
        if content is None:
            _remove(path)
        else:
            _restore(path, *content)
    if not before.had_cache:
        with contextlib.suppress(OSError):  # others keep their bytecode there by now
            (before.site_dir / CACHE).rmdir()


def _carry_out(action: WriteFile, target: Target) -> None:
    path = action.path
    if action.state is FileState.UNCHANGED:
        return
    if path == target.site_dir / CACHE:
        with contextlib.suppress(OSError):  # others keep their bytecode there by now
            path.rmdir()
    elif action.state is FileState.REMOVE:
        _remove(path)
    elif path.parent.name == CACHE:
        _compile(path, target)
    else:
        if path.name in MODULES:
            # Bytecode counts as right where its source has the same second and size, which the new one may have too.
            for compiled in _compiled(target.site_dir, (path.name,)):
                _remove(compiled)
        write_atomically(path, action.content)


def _compile(path: Path, target: Target) -> None:
    """Where that fails, every start by a user who may not write there pays 1.5 ms; that is no reason to stop."""
    name = f"{path.name.partition('.')[0]}.py"
    bytecode = compile_module(target, name)
    if bytecode is not None:
        with contextlib.suppress(UsageError):
            write_atomically(path, bytecode)


def _compiled(site_dir: Path, modules: Sequence[str]) -> list[Path]:
    cache = site_dir / CACHE
    if cache.is_symlink():
        return []
    found = [path for name in modules for path in cache.glob(f"{Path(name).stem}.*")]
    return [path for path in found if is_compiled(path.name)]


def _content(path: Path) -> tuple[bytes, int] | None:
    return (
        (path.read_bytes(), path.stat().st_mtime_ns)
        if path.is_file() and not path.is_symlink()
        else None
    )


def _restore(path: Path, content: bytes, changed_ns: int) -> None:
    if _content(path) != (content, changed_ns):
        write_atomically(path, content)
        os.utime(path, ns=(changed_ns, changed_ns))


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise UsageError(
            f"cannot remove {path}: {error.strerror or error}", hint="run as the user who owns it"
        ) from error
