# SPDX-License-Identifier: Apache-2.0
"""Pure. What pipelines, scripts and packaging files say: queues, waits, tests, how to install."""

import re
import shlex
import tomllib
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from ci_doctor.scaffold.reading.source_file import SourceFile, TextKind
from ci_doctor.scaffold.scaffold_facts import Packaging

_QUEUE: Final = re.compile(
    # No `\s` at the beginning: from each of many blank lines it would read to the last one.
    r"""^[ \t]*(?:- +)?queue[ \t]*[:=][ \t]*["']?([\w.-]+)["']?[ \t]*$""",
    re.MULTILINE,
)
_WAITS: Final = re.compile(
    r"\bsleep +[\d.]+|\b(?:until|while)\b.*\b(?:curl|wget|nc)\b|\bcurl\b.*--retry"
)
_LONGEST_LINE: Final = 1_000
_TESTS: Final = re.compile(r"(?:^|/)(?:test_\w+|\w+_test)\.py$")


def queues_in(texts: Iterable[str]) -> tuple[str, ...]:
    """The queues of agents that pipelines name, in the order of their names."""
    names: set[str] = set()
    for text in texts:
        names.update(_QUEUE.findall(text))
    return tuple(sorted(names))


def waits(source: SourceFile) -> bool:
    """Whether a script waits for something by sleeping or by polling."""
    if source.kind not in {TextKind.SHELL, TextKind.YAML}:
        return False
    for line in source.text.split("\n"):
        is_code = len(line) < _LONGEST_LINE and not line.lstrip().startswith("#")
        if is_code and _WAITS.search(line):
            return True
    return False


def test_directories(files: Iterable[str]) -> tuple[str, ...]:
    """The topmost directories with tests of Python."""
    folders = set()
    for file in files:
        if _TESTS.search(file):
            parts = file.split("/")[:-1]
            top = next((at for at, part in enumerate(parts) if part in {"test", "tests"}), None)
            directory = parts if top is None else parts[: top + 1]
            folders.add("/".join(directory) or ".")
    return tuple(sorted(folders))


def packaging_of(
    directory: str, files: Collection[str], texts: Mapping[str, str], prefix: str
) -> Packaging:
    """How the project in `directory`, where the server runs, is built and installed.

    texts: those of each pyproject.toml. prefix: what stands before each name from the top.
    """
    for place in dict.fromkeys((directory, "")):
        packaging = _packaging_in(place, files, texts, prefix)
        if packaging is not None:
            return packaging
    return Packaging()


def _packaging_in(
    place: str, files: Collection[str], texts: Mapping[str, str], prefix: str
) -> Packaging | None:
    here = f"{place}/" if place else ""
    document = _document(texts.get(f"{here}pyproject.toml", ""))
    backend = _backend(document)
    target = "/".join(part for part in (prefix, place) if part) or "."
    for name in ("requirements.txt", "requirements/base.txt"):
        if f"{here}{name}" in files:
            path = shlex.quote(name if target == "." else f"{target}/{name}")
            return Packaging(backend=backend, install=(f"python -m pip install -r {path}",))
    if "project" in document or f"{here}setup.py" in files:
        return Packaging(backend=backend, install=(f"python -m pip install {_written(target)}",))
    return Packaging(backend=backend) if backend else None


def _backend(document: dict[str, Any]) -> str | None:
    system = document.get("build-system")
    backend = system.get("build-backend") if isinstance(system, dict) else None
    return backend if isinstance(backend, str) else None


def _written(target: str) -> str:
    """A directory as pip wants it: a bare name would be a package of the index."""
    return target if target == "." else shlex.quote(f"./{target}")


def _document(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError):
        return {}
