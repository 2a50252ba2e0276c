# SPDX-License-Identifier: Apache-2.0
"""Pure. Which file of a tree is which module, for trees with and without a src directory."""

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

_SOURCE_ROOTS: Final = ("", "src/", "python/", "lib/")
_EXTENSIONS: Final = (".so", ".pyd", ".pyx", ".cpp")


class ModuleFile(Struct, frozen=True, kw_only=True):
    """The file of a module. `path` is None for one that is compiled, and for a namespace package.

    compiled: the file of one that is compiled.
    """

    name: str
    path: str | None
    is_package: bool = False
    compiled: str | None = None


class ModuleIndex(Struct, frozen=True, kw_only=True):
    """The modules of a tree by dotted name, and their stubs. `tops` are the packages that others import."""

    modules: dict[str, ModuleFile]
    stubs: dict[str, str]
    tops: frozenset[str]


def module_index(names: Iterable[str]) -> ModuleIndex:
    """The modules that a tree's file names make."""
    listed = sorted(names)
    packages = {name.removesuffix("__init__.py") for name in listed if _is_init(name)}
    roots = {_root_of(package, packages) for package in packages}
    roots |= {""} if not packages else set()
    kept = [root for root in roots if root in _SOURCE_ROOTS or _is_data_root(root)] or [""]
    modules: dict[str, ModuleFile] = {}
    stubs: dict[str, str] = {}
    for root in sorted(kept, key=len, reverse=True):
        for name in listed:
            if name.startswith(root):
                _add(modules, stubs, name, name.removeprefix(root))
    tops = {
        package.removeprefix(root).split("/")[0]
        for root in kept
        for package in packages
        if package.startswith(root)
    }
    if not packages:
        tops = {name.partition(".")[0] for name in modules}
    single = {name for name in modules if "." not in name and modules[name].path is not None}
    return ModuleIndex(modules=modules, stubs=stubs, tops=frozenset(tops | single))


def _is_init(name: str) -> bool:
    return name == "__init__.py" or name.endswith("/__init__.py")


def _is_data_root(root: str) -> bool:
    return root.endswith((".data/purelib/", ".data/platlib/"))


def _root_of(package: str, packages: set[str]) -> str:
    """The directory above the outermost package around `package`."""
    while True:
        parent = package.rstrip("/").rpartition("/")[0]
        above = f"{parent}/" if parent else ""
        if above not in packages or not package:
            return above
        package = above


def _add(modules: dict[str, ModuleFile], stubs: dict[str, str], path: str, relative: str) -> None:
    stem, dot, suffix = relative.rpartition("/")[2].partition(".")
    parts = [*relative.split("/")[:-1], stem]
    if not dot or not all(part.isidentifier() for part in parts):
        return
    is_package = stem == "__init__"
    if is_package:
        parts = parts[:-1]
    name = ".".join(parts)
    if not name:
        return
    if suffix == "py":
        modules[name] = ModuleFile(name=name, path=path, is_package=is_package)
    elif suffix == "pyi":
        stubs[name] = path
        return
    elif f".{suffix}".endswith(_EXTENSIONS):
        compiled = ModuleFile(name=name, path=None, is_package=is_package, compiled=path)
        modules.setdefault(name, compiled)
    for length in range(1, len(parts)):
        above = ".".join(parts[:length])
        modules.setdefault(above, ModuleFile(name=above, path=None, is_package=True))
