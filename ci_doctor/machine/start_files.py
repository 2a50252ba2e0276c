# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: which files run at every start of an interpreter, and the time of each."""

import ast
import contextlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from ci_doctor.decodable import decodable
from ci_doctor.errors import InfraError
from ci_doctor.machine.interpreters import ask, clean_environment
from ci_doctor.model.facts.preparing import StartFile

_CUSTOMIZE: Final = ("sitecustomize", "usercustomize")
_TIMEOUT_S: Final = 60.0
_PROBE: Final = Path(__file__).parent / "stub" / "start_probe.py"
_BEGIN: Final = "ci-doctor: begin "
_END: Final = "ci-doctor: end "
_PATH: Final = "ci-doctor: path "


class InterpreterStart(Struct, frozen=True, kw_only=True):
    """One start.

    `path` is sys.path when sitecustomize was looked for; `ran` has the file of each of sitecustomize
    and usercustomize that was imported, or None. `files` ran in this order.
    """

    path: tuple[str, ...]
    ran: dict[str, str | None]
    files: tuple[StartFile, ...] = ()


class _Report(Struct, kw_only=True):
    """The probe's stderr: each file by name, those that run yet, and sys.path if it was written.

    A name is the path of a `.pth` file, or one of _CUSTOMIZE. `running` has, with each name, the
    microseconds of the files that it has started.
    """

    costs: dict[str, int]
    stderr: dict[str, list[str]]
    running: list[tuple[str, int]]
    path: Sequence[str] = ()


def watch_start(python: Path) -> InterpreterStart:
    """An ordinary start of `python` without PYTHONPATH. Raises InfraError if it does not report."""
    environment = start_environment(os.environ, None)
    words = start_words(python)[1:]
    # The first start, which reads the files from disk, does not count.
    _, answer = (
        ask(python, *words, timeout_s=_TIMEOUT_S, environment=environment) for _ in range(2)
    )
    start = read_start(answer.stdout, answer.stderr)
    if start is None:
        reason = answer.last_words
        if answer.exit_code is None:
            reason = f"it did not start within {_TIMEOUT_S:.0f} s"
        raise InfraError(
            f"{python} did not report what it starts: {reason}", hint="look at its `.pth` files"
        )
    return start


def start_words(python: Path) -> tuple[str, ...]:
    """The command that starts `python` and reports what it starts."""
    return (str(python), "-S", str(_PROBE))


def start_environment(environ: Mapping[str, str], pythonpath: str | None) -> dict[str, str]:
    """`environ` for an ordinary start, with this PYTHONPATH or without any."""
    environment = clean_environment(environ)
    # What its files import must not leave bytecode behind.
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    if pythonpath:
        environment["PYTHONPATH"] = pythonpath
    return environment


def read_start(stdout: str, stderr: str) -> InterpreterStart | None:
    """What the probe reported; None if it reported nothing."""
    lines = stdout.strip().splitlines()
    try:
        # Not msgspec's reader: it refuses the surrogates of a path that is no UTF-8 (PEP 383).
        start = msgspec.convert(json.loads(lines[-1]), decodable(InterpreterStart))
    except (ValueError, msgspec.ValidationError, IndexError):
        return None
    report = _read_report(stderr)
    files = []
    for name, cost_us in report.costs.items():
        is_custom = name in _CUSTOMIZE
        # A module that removed itself from sys.modules was the first one on the path.
        path = (start.ran.get(name) or _module_file(name, start.path)) if is_custom else name
        lines_run = () if is_custom else _import_lines(Path(name))
        # A `.pth` file without import lines only adds paths.
        if path is not None and (is_custom or lines_run):
            written = tuple(report.stderr[name])
            files.append(StartFile(path=path, lines=lines_run, cost_us=cost_us, stderr=written))
    return msgspec.structs.replace(start, files=tuple(files))


def running_file(text: str) -> str | None:
    """The file that had begun, and not ended, when the probe had written `text` to stderr."""
    report = _read_report(text)
    if not report.running:
        return None
    name = report.running[-1][0]
    # A `.pth` file is named by its path already.
    return (_module_file(name, report.path) if name in _CUSTOMIZE else None) or name


def written_by_files(text: str) -> list[str]:
    """The lines of `text`, the probe's stderr, that the probe itself has not written."""
    own = (_BEGIN, _END, _PATH)
    return [line for line in text.splitlines() if line.strip() and not line.startswith(own)]


def _read_report(text: str) -> _Report:
    """The import lines of a virtual environment's `.pth` files run twice (python/cpython#75723): both count."""
    report = _Report(costs={}, stderr={}, running=[])
    running = report.running
    for line in text.splitlines():
        if isinstance(name := _literal(line, _BEGIN), str):
            running.append((name, 0))
            report.costs.setdefault(name, 0)
            report.stderr.setdefault(name, [])
        elif isinstance(spent_us := _literal(line, _END), int) and running:
            name, inner_us = running.pop()
            report.costs[name] += spent_us - inner_us
            if running:
                running[-1] = (running[-1][0], running[-1][1] + spent_us)
        elif isinstance(path := _literal(line, _PATH), list):
            report.path = path
        elif running:
            lines = report.stderr[running[-1][0]]
            lines += [each for each in written_by_files(line) if each not in lines]
    return report


def _literal(line: str, mark: str) -> object:
    """The literal behind `mark`; None for another line, such as one that a start file writes."""
    with contextlib.suppress(ValueError, SyntaxError):
        return ast.literal_eval(line.removeprefix(mark)) if line.startswith(mark) else None
    return None


def _module_file(name: str, path: Sequence[str]) -> str | None:
    """The file that `import NAME` finds on `path`."""
    for entry in path:
        for file in (f"{entry}/{name}/__init__.py", f"{entry}/{name}.py"):
            # As the import system: what cannot be reached is not there. pathlib would raise.
            if os.path.isfile(file):  # noqa: PTH113
                return file
    return None


def _import_lines(path: Path) -> tuple[str, ...]:
    """The lines that `site` executes: those that begin with `import` and a space or a tab."""
    try:
        text = path.read_text("utf-8-sig", "replace")
    except OSError:
        return ()
    lines = [line.rstrip() for line in text.splitlines()]
    return tuple(line for line in lines if line.startswith(("import ", "import\t")))
