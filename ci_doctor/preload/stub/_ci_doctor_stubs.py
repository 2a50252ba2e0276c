# SPDX-License-Identifier: Apache-2.0
"""Acts on other interpreters: stub modules for the drivers beside this file, and their output."""

import importlib.machinery
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


class StubLoader:
    """Makes a module from `source`."""

    def __init__(self, source: str) -> None:
        self.source = source

    def create_module(self, spec: "Any") -> None:
        """An ordinary module."""

    def exec_module(self, module: "Any") -> None:
        """Execute the source."""
        code = compile(self.source, f"<{module.__name__}, a stub of ci-doctor>", "exec")
        exec(code, vars(module))  # noqa: S102

    def get_source(self, name: str) -> str:  # noqa: ARG002
        """For tracebacks."""
        return self.source


class StubFinder:
    """Finds the stubs in `sources`, and the packages above them with the paths of the real ones."""

    def __init__(self, sources: "dict[str, str]", packages: "Sequence[str]") -> None:
        self.sources = sources
        self.packages = packages

    def find_spec(self, name: str, path: "Any" = None, target: "Any" = None) -> "Any":  # noqa: ARG002
        """The spec of a stub."""
        if name not in self.sources and name not in self.packages:
            return None
        loader: Any = StubLoader(self.sources.get(name, ""))
        spec = importlib.machinery.ModuleSpec(name, loader, origin="a stub of ci-doctor")
        if name in self.packages:
            real = find_behind(self, name, path)
            # The real packages below it must still be importable.
            locations = getattr(real, "submodule_search_locations", None) or []
            spec.submodule_search_locations = list(locations)
        return spec


def find_behind(finder: "Any", name: str, path: "Any", target: "Any" = None) -> "Any":
    """The first spec that a finder behind `finder` has for `name`."""
    finders = list(sys.meta_path)
    for other in finders[finders.index(finder) + 1 :]:
        if hasattr(other, "find_spec"):
            spec = other.find_spec(name, path, target)
            if spec is not None:
                return spec
    return None


def parents(name: str) -> "list[str]":
    """The packages above `name`, outermost first."""
    parts = name.split(".")
    return [".".join(parts[:end]) for end in range(1, len(parts))]


def parse(rule: str) -> "tuple[str, list[tuple[str, list[str]]]]":
    """The trigger, and the modules with their attributes."""
    trigger, _, modules = rule.partition("=")
    preloads = []
    for part in modules.split(";"):
        module, _, names = part.partition(":")
        preloads.append((module, [name for name in names.split(",") if name]))
    return trigger, preloads


def put_behind_the_shim(*finders: "Any") -> None:
    """Put finders where the real ones are: the shim calls those after it."""
    shim = sys.modules.get("_ci_doctor_preload")
    index = sys.meta_path.index(shim) + 1 if shim in sys.meta_path else 0
    sys.meta_path[index:index] = finders


def described(error: BaseException) -> str:
    """`Type: message` on one line."""
    try:
        return f"{type(error).__name__}: {' '.join(str(error).split())}"
    except Exception:  # noqa: BLE001 - a broken __str__
        return type(error).__name__


def finish(result: "dict[str, Any]") -> None:
    """Print the result as JSON in the last line of stdout, and end the process: a thread may hang.

    Without the json module, which may be a trigger or a stub.
    """
    pairs = []
    for name, value in result.items():
        text = quoted(value) if isinstance(value, str) else str(value).lower()
        pairs.append(f"{quoted(name)}: {text}")
    for stream in (sys.stdout, sys.stderr):
        try:  # noqa: SIM105 - contextlib may be a trigger
            stream.flush()
        except Exception:  # noqa: BLE001, S110 - a module has closed it
            pass
    os.write(1, f"\n{{{', '.join(pairs)}}}\n".encode("ascii"))
    os._exit(0)


def quoted(text: str) -> str:
    """`text` as a string in JSON."""
    characters = []
    # JSON escapes UTF-16 code units.
    for unit in memoryview(text.encode("utf-16", "replace")[2:]).cast("H"):
        is_plain = 35 <= unit < 92 or unit == 32
        characters.append(chr(unit) if is_plain else f"\\u{unit:04x}")
    return f'"{"".join(characters)}"'
