# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: which files run at every start of an interpreter, and the cost of each."""

import contextlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from ci_doctor.errors import InfraError
from ci_doctor.preload.interpreter import ask, clean_environment
from ci_doctor.preload.start_cost import START_TIMEOUT_S, Imported, read_importtime
from ci_doctor.preload.target import Target

CUSTOMIZE = ("sitecustomize", "usercustomize")
_PROBE = Path(__file__).parent / "stub" / "start_probe.py"
_BEGIN = "ci-doctor: begin "
_END = "ci-doctor: end "
_PATH = "ci-doctor: path "
_IMPORT_TIME = "import time:"


class StartFileBlock(Struct, frozen=True, kw_only=True):
    """What one file did at a start.

    `name` is the path of a `.pth` file, or one of CUSTOMIZE. `cost_us` excludes the files that it
    started in turn. `imports` is everything that was imported, in the order of the ends. `stderr`
    are the other lines that it wrote there, each once.
    """

    name: str
    cost_us: int
    imports: tuple[Imported, ...] = ()
    stderr: tuple[str, ...] = ()


class InterpreterStart(Struct, frozen=True, kw_only=True):
    """One start.

    `path` is sys.path when sitecustomize was looked for; `ran` has the file of each of CUSTOMIZE
    that was imported, or None; `user_dir` is the user's site directory, which is read if
    `user_site`. `printing` names the files that wrote to stdout.
    """

    path: tuple[str, ...]
    ran: dict[str, str | None]
    user_site: bool
    user_dir: str | None
    printing: tuple[str, ...] = ()
    blocks: tuple[StartFileBlock, ...] = ()

    @property
    def cost_us(self) -> int:
        """Microseconds of all files together."""
        return sum(block.cost_us for block in self.blocks)


def watch_start(
    target: Target, *, pythonpath: str | None = None, starts: int = 3
) -> InterpreterStart:
    """An ordinary start of `target`, the quickest of `starts` starts.

    `pythonpath` is the job's PYTHONPATH; None starts without that variable. Raises InfraError if
    the interpreter does not report its start.
    """
    environment = start_environment(os.environ, pythonpath)
    # The first start, which reads the files from disk, does not count. The quickest of the others:
    # a busy machine must not add to the cost of files.
    watched = [_watch_once(target, environment) for _ in range(starts + 1)][1:]
    return min(watched, key=lambda start: start.cost_us)


class _OpenFile:
    """A file that runs, and the microseconds of the files that it has started."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.inner_us = 0


def read_blocks(text: str) -> tuple[StartFileBlock, ...]:
    """The blocks in what the probe wrote to stderr, in the order of their beginnings, one per file.

    The import lines of a virtual environment's `.pth` files run twice (python/cpython#75723): both
    count.
    """
    costs: dict[str, int] = {}
    imports: dict[str, list[Imported]] = {}
    others: dict[str, list[str]] = {}
    running: list[_OpenFile] = []
    for line in text.splitlines():
        if line.startswith(_BEGIN):
            name = line.removeprefix(_BEGIN)
            running.append(_OpenFile(name))
            costs.setdefault(name, 0)
        elif line.startswith(_END) and running:
            file = running.pop()
            spent_us = int(line.rpartition(" ")[2])
            costs[file.name] += spent_us - file.inner_us
            if running:
                running[-1].inner_us += spent_us
        elif running:
            imported = read_importtime(line)
            imports.setdefault(running[-1].name, []).extend(imported)
            others.setdefault(running[-1].name, []).extend(written_by_files(line))
    return tuple(
        StartFileBlock(
            name=name,
            cost_us=cost,
            imports=tuple(imports.get(name, ())),
            stderr=tuple(dict.fromkeys(others.get(name, ()))),
        )
        for name, cost in costs.items()
    )


def running_file(text: str) -> str | None:
    """The file that had begun, and not ended, when the probe had written `text` to stderr."""
    running: list[str] = []
    path: list[str] = []
    for line in text.splitlines():
        if line.startswith(_BEGIN):
            running.append(line.removeprefix(_BEGIN))
        elif line.startswith(_END) and running:
            running.pop()
        elif line.startswith(_PATH):
            path = line.removeprefix(_PATH).split(os.pathsep)
    if not running:
        return None
    # A `.pth` file is named by its path already.
    if running[-1] not in CUSTOMIZE:
        return running[-1]
    files = candidates(running[-1], path)
    return files[0] if files else running[-1]


def written_by_files(text: str) -> list[str]:
    """The lines of `text`, the probe's stderr, that neither it nor `-X importtime` wrote."""
    own = (_BEGIN, _END, _PATH, _IMPORT_TIME)
    return [line for line in text.splitlines() if line.strip() and not line.startswith(own)]


def candidates(name: str, path: Sequence[str]) -> tuple[str, ...]:
    """The files that `import NAME` would find on `path`; only the first of them runs."""
    # sys.path may name one directory twice, through a link.
    files: dict[str, str] = {}
    for entry in path:
        file = _module_file(name, Path(entry))
        if file is not None:
            files.setdefault(os.path.realpath(file), str(file))
    return tuple(files.values())


def _module_file(name: str, directory: Path) -> Path | None:
    """The file of the module `name` in `directory`, in the import system's order."""
    extensions: list[Path] = []
    with contextlib.suppress(OSError):
        extensions = sorted(directory.glob(f"{name}.*.so"))
    package = directory / name / "__init__.py"
    for file in (package, *extensions, directory / f"{name}.py", directory / f"{name}.pyc"):
        # As the import system: what cannot be reached is not there. pathlib would raise.
        if os.path.isfile(file):  # noqa: PTH113
            return file
    return None


def _watch_once(target: Target, environment: Mapping[str, str]) -> InterpreterStart:
    words = start_words(target.python)[1:]
    answer = ask(target.python, *words, timeout_s=START_TIMEOUT_S, environment=environment)
    if answer.exit_code is None:
        raise InfraError(
            f"{target.python} did not start within {START_TIMEOUT_S:.0f} s",
            hint="look at its `.pth` files",
        )
    start = read_start(answer.stdout, answer.stderr)
    if start is None:
        raise InfraError(
            f"{target.python} did not report what it starts: {answer.last_error_line}",
            hint=f"run `{target.python} -S -X importtime {_PROBE}`",
        )
    return start


def start_words(python: Path) -> tuple[str, ...]:
    """The command that starts `python` and reports what it starts."""
    return (str(python), "-S", "-X", "importtime", str(_PROBE))


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
    import json

    lines = stdout.strip().splitlines()
    try:
        # Not msgspec's reader: it refuses the surrogates of a path that is no UTF-8 (PEP 383).
        start = msgspec.convert(json.loads(lines[-1]), InterpreterStart)
    except (ValueError, msgspec.ValidationError, IndexError):
        return None
    return msgspec.structs.replace(start, blocks=read_blocks(stderr))
