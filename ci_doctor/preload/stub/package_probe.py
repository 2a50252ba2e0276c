# SPDX-License-Identifier: Apache-2.0
"""Acts on stdout: prints where a package is, in the interpreter of a job. Imports none of it.

Run with `-c`, the name of the package as its argument. Written for Python 3.8.
"""

import json
import re
import sys
from importlib import metadata
from importlib.machinery import PathFinder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MOST_TOPS = 20


def canonical(name: str) -> str:
    """A distribution's name as indexes compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def tops_of(distribution: "Any") -> "list[str]":
    """The modules that the files of a distribution make, without what is below a package."""
    packages = {}
    for file in distribution.files or ():
        parts = file.parts
        if file.suffix not in (".py", ".so", ".pyc") or parts[0] == "__pycache__":
            continue
        if parts[0].startswith("__editable__"):
            continue
        is_package = parts[-1] == "__init__.py"
        inner = parts[:-1] if is_package else (*parts[:-1], parts[-1].partition(".")[0])
        if all(part.isidentifier() for part in inner) and inner:
            packages[inner] = is_package
    tops = [inner for inner in packages if not below_another(inner, packages)]
    shallow = sorted(tops, key=len)
    listed = (distribution.read_text("top_level.txt") or "").split()
    names = [".".join(inner) for inner in shallow] or listed
    return list(dict.fromkeys(names))[:MOST_TOPS]


def below_another(inner: "tuple[str, ...]", packages: "Any") -> bool:
    """Whether a module belongs to a package among them, or is a loose file in a directory."""
    above = [inner[:count] for count in range(1, len(inner))]
    if any(packages.get(each) for each in above):
        return True
    return len(inner) > 1 and not packages[inner]


def find(wanted: str) -> "Any":
    """The distribution of that name, else the first one with a top-level module of that name."""
    by_module = None
    for distribution in metadata.distributions():
        # Metadata that was cut off has no name.
        name = str(distribution.metadata["Name"] or "")
        if canonical(name) == canonical(wanted):
            return distribution, tops_of(distribution)
        if by_module is None and wanted.isidentifier():
            tops = tops_of(distribution)
            if wanted in {top.partition(".")[0] for top in tops}:
                by_module = (distribution, [wanted])
    return by_module or (None, [])


def redirected() -> "dict[str, list[str]]":
    """Modules that the import hook of an editable installation takes from elsewhere."""
    places_by_top = {}
    for name, module in list(sys.modules.items()):
        mapping = getattr(module, "MAPPING", None)
        if name.startswith("__editable__") and isinstance(mapping, dict):
            for top, place in mapping.items():
                places_by_top[top] = [str(place)]
            for top, places in (getattr(module, "NAMESPACES", None) or {}).items():
                places_by_top[top] = [str(place) for place in places]
    for finder in sys.meta_path:
        files = getattr(finder, "known_source_files", None)
        if isinstance(files, dict):
            for name, place in files.items():
                places_by_top[name] = [str(place)]
    return places_by_top


def has_module(name: str, moved: "Any") -> bool:
    """Whether the top-level module can be found; nothing is imported."""
    top = name.partition(".")[0]
    if top in moved:
        return True
    try:
        return PathFinder.find_spec(top) is not None
    except (ImportError, ValueError):
        return False


def modules_of(wanted: str, distribution: "Any", tops: "list[str]", moved: "Any") -> "list[str]":
    """The modules of the package; an editable installation lists no files of its own."""
    importable = [top for top in tops if has_module(top, moved)]
    if importable:
        return importable
    names = [wanted.replace("-", "_"), wanted.partition(".")[0]]
    if distribution is not None:
        names.append(canonical(distribution.metadata["Name"]).replace("-", "_"))
        values = [point.value for point in distribution.entry_points]
        names += [value.partition(":")[0].partition(".")[0].strip() for value in values]
    for name in names:
        if name.isidentifier() and has_module(name, moved):
            return [name]
    return []


def main(wanted: str) -> None:
    """Print the fields of InstalledPackage as the last line."""
    sys.path[:] = [entry for entry in sys.path if entry]
    moved = redirected()
    distribution, tops = find(wanted)
    points = distribution.entry_points if distribution is not None else ()
    scripts = [
        {"group": point.group, "name": point.name, "value": point.value}
        for point in points
        if point.group in ("console_scripts", "gui_scripts")
    ]
    stdlib = getattr(sys, "stdlib_module_names", ()) or sys.builtin_module_names
    package = {
        "python_version": list(sys.version_info[:2]),
        "path": sys.path,
        "stdlib": sorted(stdlib),
        "redirected": moved,
        "tops": modules_of(wanted, distribution, tops, moved),
        "distribution": None if distribution is None else distribution.metadata["Name"],
        "version": None if distribution is None else distribution.version,
        "scripts": scripts,
    }
    sys.stdout.write("\n" + json.dumps(package) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
