# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: which files run at every start of an interpreter, and what each costs."""

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from ci_doctor.errors import InfraError
from ci_doctor.preload.interpreter import ask, clean_environment
from ci_doctor.preload.start_cost import START_TIMEOUT_S, Imported, read_importtime
from ci_doctor.preload.target import Target

CUSTOMIZE = ("sitecustomize", "usercustomize")
_PROBE = Path(__file__).parent / "stub" / "start_probe.py"
_BEGIN, _END = "ci-doctor: begin ", "ci-doctor: end "


class StartFileBlock(Struct, frozen=True, kw_only=True):
    """What one file did at a start.

    `name` is the path of a `.pth` file, or one of CUSTOMIZE; `cost_us` is without what files did that it started in turn;
    `imports` is everything that was imported, in the order in which it ended.
    """

    name: str
    cost_us: int
    imports: tuple[Imported, ...] = ()


class InterpreterStart(Struct, frozen=True, kw_only=True):
    """One start.

    `path` is sys.path when sitecustomize was looked for; `ran` has the file of each of CUSTOMIZE that was imported, or
    None; `user_dir` is the user's site directory, which counts where `user_site`.
    """

    path: tuple[str, ...]
    ran: dict[str, str | None]
    user_site: bool
    user_dir: str | None
    blocks: tuple[StartFileBlock, ...] = ()


def watch_start(
    target: Target, *, pythonpath: str | None = None, starts: int = 3
) -> InterpreterStart:
    """An ordinary start of `target`, the quickest of `starts` starts; one more comes first and is not counted.

    The quickest, so that a busy machine does not add to what files cost. `pythonpath` is what the job has in PYTHONPATH;
    without it the start is as it would be without that variable. Raises InfraError where the interpreter does not tell.
    """
    environment = clean_environment(os.environ) | ({"PYTHONPATH": pythonpath} if pythonpath else {})
    seen = [_watch_once(target, environment) for _ in range(starts + 1)][1:]
    return min(seen, key=lambda start: sum(block.cost_us for block in start.blocks))


def read_blocks(text: str) -> tuple[StartFileBlock, ...]:
    """The blocks in what the probe wrote to stderr, in the order in which they began; one per file. Pure.

    The import lines of a virtual environment's `.pth` files run twice (python/cpython#75723): both count.
    """
    costs: dict[str, int] = {}
    imports: dict[str, list[Imported]] = {}
    within: list[
        tuple[str, int]
    ] = []  # the file, and the microseconds of the files that it started
    for line in text.splitlines():
        if line.startswith(_BEGIN):
            name = line.removeprefix(_BEGIN)
            within.append((name, 0))
            costs.setdefault(name, 0)
        elif line.startswith(_END) and within:
            name, inner = within.pop()
            spent = int(line.rpartition(" ")[2])
            costs[name] += spent - inner
            if within:
                within[-1] = (within[-1][0], within[-1][1] + spent)
        elif within:
            imports.setdefault(within[-1][0], []).extend(read_importtime(line))
    return tuple(
        StartFileBlock(name=name, cost_us=cost, imports=tuple(imports.get(name, ())))
        for name, cost in costs.items()
    )


def candidates(name: str, path: Sequence[str]) -> tuple[str, ...]:
    """The files that `import NAME` would take from the entries of `path`, in that order; only the first of them runs."""
    found: dict[str, str] = {}
    for entry in path:
        directory = Path(entry)
        there = (
            directory / name / "__init__.py", *sorted(directory.glob(f"{name}.*.so")), directory / f"{name}.py",
            directory / f"{name}.pyc",
        )  # fmt: skip
        first = next((file for file in there if file.is_file()), None)
        if first is not None:
            found.setdefault(os.path.realpath(first), str(first))
    return tuple(found.values())


def _watch_once(target: Target, environment: dict[str, str]) -> InterpreterStart:
    options = ("-S", "-X", "importtime", str(_PROBE))
    environment |= {"PYTHONDONTWRITEBYTECODE": "1"}
    answer = ask(target.python, *options, timeout_s=START_TIMEOUT_S, environment=environment)
    if answer.exit_code is None:
        raise InfraError(
            f"{target.python} did not start within {START_TIMEOUT_S:.0f} s",
            hint="look at its `.pth` files",
        )
    try:
        start = msgspec.json.decode(answer.stdout.strip().splitlines()[-1], type=InterpreterStart)
    except (msgspec.DecodeError, IndexError):
        raise InfraError(
            f"{target.python} did not tell what it starts: {answer.last_error_line}",
            hint=f"run `{target.python} -S -X importtime {_PROBE}`",
        ) from None
    return msgspec.structs.replace(start, blocks=read_blocks(answer.stderr))
