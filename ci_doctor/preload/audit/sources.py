# SPDX-License-Identifier: Apache-2.0
"""Reads source files: finds modules on a search path, in directories and zip archives."""

import zipfile
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path

from msgspec import Struct

# A generated table of that size holds no thread, and takes seconds to parse.
LARGEST_SOURCE = 4 * 2**20
_EXTENSIONS = (".so", ".pyd")

Place = Path | zipfile.Path


class ModuleKind(StrEnum):
    """What a module is made of."""

    SOURCE = "source"
    NAMESPACE = "namespace package"
    EXTENSION = "extension module"
    BYTECODE = "bytecode without source"


class LocatedModule(Struct, frozen=True, kw_only=True):
    """A module and its file; `locations` are where a package looks for its submodules."""

    name: str
    kind: ModuleKind
    file: Place | None = None
    locations: tuple[Place, ...] = ()

    @property
    def is_package(self) -> bool:
        """Whether it can have submodules."""
        return bool(self.locations)


class SourceTree:
    """Modules as an interpreter with that search path would find them. Nothing is imported."""

    def __init__(self, path: Sequence[str], redirected: Mapping[str, Sequence[str]]) -> None:
        entries = [_entry(Path(text)) for text in path]
        self._entries = [entry for entry in entries if entry is not None]
        self._redirected = redirected
        self._found: dict[str, LocatedModule | None] = {}
        self._listings: dict[str, frozenset[str]] = {}

    def find(self, name: str) -> LocatedModule | None:
        """The module of that dotted name, or None."""
        if name not in self._found:
            self._found[name] = self._find(name)
        return self._found[name]

    def read(self, module: LocatedModule) -> bytes | None:
        """Its source; None if there is none, or it cannot be read or is larger than the limit."""
        if module.kind is not ModuleKind.SOURCE or module.file is None:
            return None
        try:
            content = module.file.read_bytes()
        except (OSError, KeyError, zipfile.BadZipFile):
            return None
        return content if len(content) <= LARGEST_SOURCE else None

    def submodules(self, top: str) -> list[LocatedModule]:
        """`top` and all modules below it that have source, in the order of their names."""
        modules: list[LocatedModule] = []
        todo = [top]
        while todo:
            module = self.find(todo.pop())
            if module is None:
                continue
            modules.append(module)
            todo += sorted(self._below(module), reverse=True)
        return modules

    def _below(self, module: LocatedModule) -> set[str]:
        names = set()
        for location in module.locations:
            for entry in self._listing(location):
                stem, dot, suffix = entry.partition(".")
                is_module = suffix == "py" and stem != "__init__"
                # A directory without an __init__.py holds data or scripts as often as code.
                is_package = not dot and "__init__.py" in self._listing(location / entry)
                if stem.isidentifier() and (is_module or is_package):
                    names.add(f"{module.name}.{stem}")
        return names

    def _find(self, name: str) -> LocatedModule | None:
        moved = self._redirected.get(name)
        if moved:
            return self._moved(name, [Path(place) for place in moved])
        parent, dot, tail = name.rpartition(".")
        if not dot:
            return self._look(name, tail, self._entries)
        package = self.find(parent)
        if package is None:
            return None
        return self._look(name, tail, package.locations)

    def _moved(self, name: str, places: Sequence[Path]) -> LocatedModule | None:
        first = places[0]
        if first.is_file():
            locations = (first.parent,) if first.name == "__init__.py" else ()
            return LocatedModule(name=name, kind=ModuleKind.SOURCE, file=first, locations=locations)
        if first.with_suffix(".py").is_file() and not first.is_dir():
            return LocatedModule(name=name, kind=ModuleKind.SOURCE, file=first.with_suffix(".py"))
        if (first / "__init__.py").is_file():
            return LocatedModule(
                name=name,
                kind=ModuleKind.SOURCE,
                file=first / "__init__.py",
                locations=(first,),
            )
        if first.is_dir():
            return LocatedModule(name=name, kind=ModuleKind.NAMESPACE, locations=tuple(places))
        return None

    def _look(self, name: str, tail: str, places: Sequence[Place]) -> LocatedModule | None:
        portions: list[Place] = []
        for place in places:
            module = self._in_place(name, tail, place)
            if module is not None:
                return module
            if tail in self._listing(place) and (place / tail).is_dir():
                portions.append(place / tail)
        if portions:
            return LocatedModule(name=name, kind=ModuleKind.NAMESPACE, locations=tuple(portions))
        return None

    def _in_place(self, name: str, tail: str, place: Place) -> LocatedModule | None:
        """A package, an extension module, a source file, bytecode: the import system's order."""
        entries = self._listing(place)
        if tail in entries:
            below = self._listing(place / tail)
            for init, kind in _INITS.items():
                if init in below:
                    return LocatedModule(
                        name=name, kind=kind, file=place / tail / init, locations=(place / tail,)
                    )
        if any(_is_extension(entry, tail) for entry in entries if entry.startswith(tail)):
            return LocatedModule(name=name, kind=ModuleKind.EXTENSION)
        if f"{tail}.py" in entries:
            return LocatedModule(name=name, kind=ModuleKind.SOURCE, file=place / f"{tail}.py")
        if f"{tail}.pyc" in entries:
            return LocatedModule(name=name, kind=ModuleKind.BYTECODE)
        return None

    def _listing(self, place: Place) -> frozenset[str]:
        key = str(place)
        if key not in self._listings:
            try:
                names = frozenset(entry.name for entry in place.iterdir())
            except (OSError, ValueError, KeyError):
                names = frozenset()
            self._listings[key] = names
        return self._listings[key]


_INITS = {"__init__.py": ModuleKind.SOURCE, "__init__.pyc": ModuleKind.BYTECODE}


def _is_extension(entry: str, tail: str) -> bool:
    return entry.partition(".")[0] == tail and entry.endswith(_EXTENSIONS)


def _entry(path: Path) -> Place | None:
    if path.is_dir():
        return path
    try:
        return zipfile.Path(path) if zipfile.is_zipfile(path) else None
    except (OSError, zipfile.BadZipFile):
        return None
