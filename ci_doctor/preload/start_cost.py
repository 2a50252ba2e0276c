# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: what a module costs every start of an interpreter, by `-X importtime`."""

import os
import re
import statistics
from collections.abc import Collection, Iterable

from msgspec import Struct

from ci_doctor.errors import InfraError
from ci_doctor.preload.interpreter import ask, clean_environment
from ci_doctor.preload.target import Target

START_TIMEOUT_S = 60.0
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


def start_cost_us(target: Target, modules: Collection[str], *, starts: int = 5) -> int | None:
    """Microseconds that importing `modules` takes of a start, the median of `starts`.

    None if no start imports them. Raises InfraError if the interpreter does not answer.
    """
    # The first start, which reads the files from disk, does not count.
    costs = [_cost_once(target, modules) for _ in range(starts + 1)][1:]
    known = [cost for cost in costs if cost is not None]
    return round(statistics.median(known)) if known else None


def _cost_once(target: Target, modules: Collection[str]) -> int | None:
    answer = ask(
        target.python,
        *("-B", "-X", "importtime", "-c", "pass"),
        timeout_s=START_TIMEOUT_S,
        environment=clean_environment(os.environ),
    )
    if answer.exit_code is None:
        raise InfraError(
            f"{target.python} did not start within {START_TIMEOUT_S:.0f} s",
            hint="look at its `.pth` files",
        )
    costs = [each.self_us for each in read_importtime(answer.stderr) if each.name in modules]
    return sum(costs) if costs else None
