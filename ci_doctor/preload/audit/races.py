# SPDX-License-Identifier: Apache-2.0
"""Reads source files: which imports of two threads may harm each other.

The import lock makes most modules safe: the second thread waits until the first has loaded the
module. Three kinds are not (docs/preload.md): a module that replaces itself in sys.modules, one in
a circle of imports that the threads enter at different modules, and a package whose code imports
the very submodule that the other thread names directly.
"""

from collections.abc import Iterable, Sequence
from enum import StrEnum

from msgspec import Struct

from ci_doctor.preload.audit.events import ImportStatement, SourceSite
from ci_doctor.preload.audit.library import Library
from ci_doctor.preload.audit.module_code import replaces_itself

# Modules looked at for a circle, or for what a package imports.
_MOST_MODULES = 400


class RaceHazard(StrEnum):
    """Why two imports of a module may harm each other; `safe`: the import lock suffices."""

    REPLACES_ITSELF = "replaces itself"
    CIRCLE = "import circle"
    SUBMODULE = "package and submodule"
    NOT_INSTALLED = "not installed"
    SAFE = "safe"


class RacedModule(Struct, frozen=True, kw_only=True):
    """A module that two threads import, where each first does, and names that they take from it.

    `is_possible`: `here` is reached only if somebody calls a registered function.
    """

    module: str
    hazard: RaceHazard
    here: SourceSite
    there: SourceSite
    names: tuple[str, ...] = ()
    is_possible: bool = False


def races(
    library: Library, here: Sequence[ImportStatement], there: Sequence[ImportStatement]
) -> tuple[RacedModule, ...]:
    """The modules among the imports of both threads, in the order in which `here` imports them.

    Neither side has imports of modules that were complete when the second thread began.
    """
    first_here = _first(here)
    first_there = _first(there)
    shared = [module for module in first_here if module in first_there]
    circles = _circles(library, shared)
    raced = []
    for module in shared:
        hazard = _hazard(library, module, here, there)
        if hazard is RaceHazard.SAFE and _enter_apart(module, circles, first_here, first_there):
            hazard = RaceHazard.CIRCLE
        names = _names(module, here, there)
        raced.append(
            RacedModule(
                module=module,
                hazard=hazard,
                here=first_here[module].site,
                there=first_there[module].site,
                names=names,
                is_possible=first_here[module].is_possible,
            )
        )
    return tuple(raced)


def _first(imports: Iterable[ImportStatement]) -> dict[str, ImportStatement]:
    first: dict[str, ImportStatement] = {}
    for each in imports:
        first.setdefault(each.module, each)
    return first


def _names(module: str, *sides: Sequence[ImportStatement]) -> tuple[str, ...]:
    """What the first import of each side that takes names from the module takes.

    Later ones find the module loaded.
    """
    names: dict[str, None] = {}
    for imports in sides:
        taken = (each.names for each in imports if each.module == module and each.names)
        names.update(dict.fromkeys(next(taken, ())))
    names.pop("*", None)
    return tuple(names)


def _hazard(
    library: Library, module: str, here: Sequence[ImportStatement], there: Sequence[ImportStatement]
) -> RaceHazard:
    top = module.partition(".")[0]
    if top in library.stdlib:
        return RaceHazard.SAFE
    if library.find(module) is None:
        # A name that `import a.b` takes for a module may be an attribute.
        return RaceHazard.NOT_INSTALLED if library.find(top) is None else RaceHazard.SAFE
    code = library.code(module)
    if code is None:
        return RaceHazard.SAFE
    if replaces_itself(code):
        return RaceHazard.REPLACES_ITSELF
    if code.is_package and _names_a_submodule(library, module, here, there):
        return RaceHazard.SUBMODULE
    return RaceHazard.SAFE


def _names_a_submodule(
    library: Library,
    package: str,
    here: Sequence[ImportStatement],
    there: Sequence[ImportStatement],
) -> bool:
    """Whether one thread names a submodule, which the package's own code imports, directly."""
    inside = f"{package}."
    named = set()
    for each in (*here, *there):
        is_outside = not f"{each.site.module}.".startswith(inside)
        if each.direct and each.module.startswith(inside) and is_outside:
            named.add(each.module)
    return bool(named) and not named.isdisjoint(_closure(library, package))


def _closure(library: Library, package: str) -> set[str]:
    """The modules of the package that importing it imports."""
    inside = f"{package}."
    modules: set[str] = set()
    todo = [package]
    while todo and len(modules) < _MOST_MODULES:
        for module in _imported_by(library, todo.pop()):
            if module.startswith(inside) and module not in modules:
                modules.add(module)
                todo.append(module)
    return modules


def _imported_by(library: Library, module: str) -> list[str]:
    modules: dict[str, None] = {}
    for each in library.imports(module):
        modules[each.module] = None
        if each.name is not None:
            submodule = f"{each.module}.{each.name}"
            if library.find(submodule) is not None:
                modules[submodule] = None
    return list(modules)


def _circles(library: Library, modules: Sequence[str]) -> dict[str, frozenset[str]]:
    """For each module in a circle of imports within `modules`, the modules of that circle.

    Tarjan's algorithm would be shorter than its explanation; reachability does for what two
    threads share.
    """
    members = set(modules[:_MOST_MODULES])
    edges = {module: members.intersection(_imported_by(library, module)) for module in members}
    reach = {module: _reachable(module, edges) for module in members}
    circles: dict[str, frozenset[str]] = {}
    for module in members:
        circle = {other for other in reach[module] if module in reach[other]}
        if len(circle) > 1:
            circles[module] = frozenset(circle)
    return circles


def _reachable(module: str, edges: dict[str, set[str]]) -> set[str]:
    reached: set[str] = set()
    todo = [module]
    while todo:
        for other in edges[todo.pop()]:
            if other not in reached:
                reached.add(other)
                todo.append(other)
    return reached


def _enter_apart(
    module: str,
    circles: dict[str, frozenset[str]],
    here: dict[str, ImportStatement],
    there: dict[str, ImportStatement],
) -> bool:
    """Whether the threads enter the module's circle at different modules."""
    circle = circles.get(module)
    if circle is None:
        return False
    entry_here = next((each for each in here if each in circle), None)
    entry_there = next((each for each in there if each in circle), None)
    return entry_here != entry_there
