# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: what a module costs every start of an interpreter."""

import os
import re
from collections.abc import Iterable

from msgspec import Struct

from ci_doctor.errors import InfraError
from ci_doctor.preload.interpreter import Answer, ask, clean_environment
from ci_doctor.preload.target import Target

START_TIMEOUT_S = 60.0
# Prints the CPU time of importing a module of a site directory, in nanoseconds.
_TIMED = """
import sys, time
sys.path.insert(0, sys.argv[2])
name = sys.argv[1]
begin = time.process_time_ns()
__import__(name)
print(time.process_time_ns() - begin)
"""
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
        imported = Imported(
            name=match[4], self_us=int(match[1]), cumulative_us=int(match[2]), depth=depth
        )
        imports.append(imported)
    return tuple(imports)


def by_package(imports: Iterable[Imported]) -> dict[str, int]:
    """Microseconds by top-level package, each module's own, the costliest first."""
    costs: dict[str, int] = {}
    for each in imports:
        package = each.name.partition(".")[0]
        costs[package] = costs.get(package, 0) + each.self_us
    return dict(sorted(costs.items(), key=lambda item: -item[1]))


def start_cost_us(target: Target, module: str, *, starts: int = 5) -> int | None:
    """Microseconds of CPU time that importing the shim's `module` takes, the least of `starts`.

    None if an ordinary start does not import it. CPU time, because other processes of a busy
    machine add to wall time. Raises InfraError if the interpreter does not answer.
    """
    ordinary = _ask(target, "-B", "-X", "importtime", "-c", "pass")
    if module not in {each.name for each in read_importtime(ordinary.stderr)}:
        return None
    # The first one, which reads the files from disk, does not count.
    costs = [_cpu_us(target, module) for _ in range(starts + 1)][1:]
    return min(costs)


def _cpu_us(target: Target, module: str) -> int:
    # -S: the import is timed, and not found done.
    answer = _ask(target, *("-I", "-S", "-B", "-c", _TIMED, module), str(target.site_dir))
    try:
        return int(answer.last_line) // 1000
    except (ValueError, IndexError):
        raise InfraError(
            f"{target.python} cannot import {module}: {answer.last_error_line}",
            hint="install the shim again",
        ) from None


def _ask(target: Target, *words: str) -> Answer:
    environment = clean_environment(os.environ)
    answer = ask(target.python, *words, timeout_s=START_TIMEOUT_S, environment=environment)
    if answer.exit_code is None:
        raise InfraError(
            f"{target.python} did not start within {START_TIMEOUT_S:.0f} s",
            hint="look at its `.pth` files",
        )
    return answer
