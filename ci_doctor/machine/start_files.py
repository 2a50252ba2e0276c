# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: which files run at every start of an interpreter, and the cost of each."""

import contextlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from ci_doctor.decodable import decodable
from ci_doctor.errors import InfraError
from ci_doctor.machine.interpreters import ask, clean_environment

CUSTOMIZE = ("sitecustomize", "usercustomize")
START_TIMEOUT_S = 60.0
_PROBE = Path(__file__).parent / "stub" / "start_probe.py"
_BEGIN = "ci-doctor: begin "
_END = "ci-doctor: end "
_PATH = "ci-doctor: path "
_IMPORT_TIME = "import time:"
_LINE = re.compile(r"import time:\s+(-?\d+) \|\s+(-?\d+) \|( +)(\S+)$")


class Imported(Struct, frozen=True, kw_only=True):
    """One line of `-X importtime`: microseconds alone and with its imports; `depth` from 0."""

    name: str
    self_us: int
    cumulative_us: int
    depth: int


def read_importtime(text: str) -> tuple[Imported, ...]:
    """The imports that `-X importtime` printed among other lines, in the order of their ends."""
    imports = []
    for line in text.splitlines():
        match = _LINE.fullmatch(line.rstrip())
        if match is None:
            continue
        # Each level of depth is two spaces, after the one behind the bar.
        depth = (len(match[3]) - 1) // 2
        own, cumulative = int(match[1]), int(match[2])
        imports.append(Imported(name=match[4], self_us=own, cumulative_us=cumulative, depth=depth))
    return tuple(imports)


class StartFileBlock(Struct, kw_only=True):
    """What one file did at a start.

    `name` is the path of a `.pth` file, or one of CUSTOMIZE. `cost_us` excludes the files that it
    started in turn. `imports` is everything that was imported, in the order of the ends. `stderr`
    are the other lines that it wrote there, each once.
    """

    name: str
    cost_us: int = 0
    imports: list[Imported] = []
    stderr: list[str] = []


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
    python: Path, *, pythonpath: str | None = None, starts: int = 3
) -> InterpreterStart:
    """An ordinary start of `python`, the quickest of `starts` starts.

    `pythonpath` is the job's PYTHONPATH; None starts without that variable. Raises InfraError if
    the interpreter does not report its start.
    """
    environment = start_environment(os.environ, pythonpath)
    # The first start, which reads the files from disk, does not count. The quickest of the others:
    # a busy machine must not add to the cost of files.
    watched = [_watch_once(python, environment) for _ in range(starts + 1)][1:]
    return min(watched, key=lambda start: start.cost_us)


class _Report(Struct, kw_only=True):
    """The probe's stderr: the blocks by name, the files that run yet, sys.path if it was written.

    `running` has, with each name, the microseconds of the files that it has started.
    """

    blocks: dict[str, StartFileBlock]
    running: list[tuple[str, int]]
    path: tuple[str, ...] = ()


def _read_report(text: str) -> _Report:
    report = _Report(blocks={}, running=[])
    running = report.running
    for line in text.splitlines():
        if line.startswith(_BEGIN):
            name = line.removeprefix(_BEGIN)
            running.append((name, 0))
            report.blocks.setdefault(name, StartFileBlock(name=name))
        elif line.startswith(_END) and running:
            name, inner_us = running.pop()
            spent_us = int(line.rpartition(" ")[2])
            report.blocks[name].cost_us += spent_us - inner_us
            if running:
                running[-1] = (running[-1][0], running[-1][1] + spent_us)
        elif line.startswith(_PATH):
            report.path = tuple(line.removeprefix(_PATH).split(os.pathsep))
        elif running:
            block = report.blocks[running[-1][0]]
            block.imports += read_importtime(line)
            block.stderr += [each for each in written_by_files(line) if each not in block.stderr]
    return report


def read_blocks(text: str) -> tuple[StartFileBlock, ...]:
    """The blocks in what the probe wrote to stderr, in the order of their beginnings, one per file.

    The import lines of a virtual environment's `.pth` files run twice (python/cpython#75723): both
    count.
    """
    return tuple(_read_report(text).blocks.values())


def running_file(text: str) -> str | None:
    """The file that had begun, and not ended, when the probe had written `text` to stderr."""
    report = _read_report(text)
    if not report.running:
        return None
    name = report.running[-1][0]
    # A `.pth` file is named by its path already.
    files = candidates(name, report.path) if name in CUSTOMIZE else ()
    return files[0] if files else name


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


def _watch_once(python: Path, environment: Mapping[str, str]) -> InterpreterStart:
    answer = ask(
        python, *start_words(python)[1:], timeout_s=START_TIMEOUT_S, environment=environment
    )
    if answer.exit_code is None:
        raise InfraError(
            f"{python} did not start within {START_TIMEOUT_S:.0f} s",
            hint="look at its `.pth` files",
        )
    start = read_start(answer.stdout, answer.stderr)
    if start is None:
        raise InfraError(
            f"{python} did not report what it starts: {answer.last_words}",
            hint=f"run `{python} -S -X importtime {_PROBE}`",
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
    lines = stdout.strip().splitlines()
    try:
        # Not msgspec's reader: it refuses the surrogates of a path that is no UTF-8 (PEP 383).
        start = msgspec.convert(json.loads(lines[-1]), decodable(InterpreterStart))
    except (ValueError, msgspec.ValidationError, IndexError):
        return None
    return msgspec.structs.replace(start, blocks=read_blocks(stderr))
