# SPDX-License-Identifier: Apache-2.0
"""What each direct dependency weighs: bytes on the disk, with all that it brings, and the CPU of its import.

    python benchmarks/dependencies.py            prints a table
    python benchmarks/dependencies.py --record   also appends it to benchmarks/RESULTS.md

Sizes are those of the files in RECORD, without bytecode. An import is the median over alternating runs, of user and
system time, less that of an empty program. `brings` counts distributions that the dependency needs, directly or not.
"""

import argparse
import os
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import NamedTuple

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from results import record
from startup import run

DISTRIBUTION = "ci-doctor-toolkit"
RUNS = 7
# The module that we import, if it is not the distribution's name with underscores.
MODULES = {
    "cryptography": "cryptography.hazmat.primitives.asymmetric.ed25519",
    "gitpython": "git",
    "google-re2": "re2",
    "nvidia-ml-py": "pynvml",
    "pyyaml": "yaml",
}
# Extras of development.
OWN = {"all", "dev", "docs", "example"}


class Weight(NamedTuple):
    """One direct dependency; sizes in bytes, `import_ms` in CPU milliseconds."""

    name: str
    place: str
    size: int
    size_with_needs: int
    needs: int
    import_ms: float


def module_of(name: str) -> str:
    """What we import of the distribution `name`."""
    return MODULES.get(name, name.replace("-", "_"))


def direct() -> Iterator[tuple[str, str]]:
    """Name and place (`core` or an extra) of each direct dependency."""
    for line in distribution(DISTRIBUTION).requires or ():
        requirement = Requirement(line)
        name = canonicalize_name(requirement.name)
        place = str(requirement.marker).partition('extra == "')[2].rstrip('"') or "core"
        if name != DISTRIBUTION and place not in OWN:
            yield name, place


def size_of(present: Distribution) -> int:
    """Bytes of the files of a distribution, without bytecode."""
    paths = [present.locate_file(file) for file in present.files or () if file.suffix != ".pyc"]
    return sum(os.path.getsize(str(path)) for path in paths if os.path.isfile(str(path)))  # noqa: PTH202, PTH113


def closure(requirement: Requirement, known: dict[str, Distribution]) -> None:
    """Add to `known` what `requirement` needs on this machine, and itself."""
    name = canonicalize_name(requirement.name)
    if name in known:
        return
    known[name] = distribution(name)
    for line in known[name].requires or ():
        needed = Requirement(line)
        extras = ("", *requirement.extras)
        if needed.marker is None or any(needed.marker.evaluate({"extra": e}) for e in extras):
            closure(needed, known)


def import_cost(module: str, folder: Path) -> float:
    """CPU milliseconds that importing `module` adds to a start of this interpreter."""
    program, empty = (sys.executable, "-c", f"import {module}"), (sys.executable, "-c", "pass")
    run(program, folder)  # writes the bytecode
    added = [run(program, folder).cpu - run(empty, folder).cpu for _ in range(RUNS)]
    return statistics.median(added) * 1000


def weigh(name: str, place: str, folder: Path) -> Weight:
    """Raises PackageNotFoundError if it is not installed here."""
    known: dict[str, Distribution] = {}
    closure(Requirement(name), known)
    sizes = {each: size_of(present) for each, present in known.items()}
    return Weight(
        name=name,
        place=place,
        size=sizes[name],
        size_with_needs=sum(sizes.values()),
        needs=len(known) - 1,
        import_ms=import_cost(module_of(name), folder),
    )


def table(weights: Sequence[Weight], absent: Sequence[str]) -> str:
    """The weights as Markdown, the core first, and the heaviest first."""
    lines = [
        "| dependency | in | MB | with what it brings, MB | brings | import, CPU ms |",
        "|---|---|--:|--:|--:|--:|",
    ]
    for each in sorted(weights, key=lambda w: (w.place != "core", w.place, -w.size_with_needs)):
        sizes = f"{each.size / 1e6:.1f} | {each.size_with_needs / 1e6:.1f}"
        lines.append(
            f"| {each.name} | {each.place} | {sizes} | {each.needs} | {each.import_ms:.0f} |"
        )
    if absent:
        lines += ["", f"Not installed here, so not weighed: {', '.join(absent)}."]
    return "\n".join(lines)


def total(extra: str) -> str:
    """Number and size of all that an installation with `extra` brings, ours not counted."""
    known: dict[str, Distribution] = {}
    closure(Requirement(f"{DISTRIBUTION}{extra}"), known)
    del known[DISTRIBUTION]
    size = sum(size_of(present) for present in known.values()) / 1e6
    return f"- {DISTRIBUTION}{extra}: {len(known)} distributions, {size:.0f} MB"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--record", action="store_true", help="append the result to RESULTS.md")
    arguments = parser.parse_args()
    weights, absent = [], []
    with tempfile.TemporaryDirectory() as folder:
        for name, place in direct():
            try:
                weights.append(weigh(name, place, Path(folder)))
            except PackageNotFoundError:
                absent.append(name)
    text = f"{table(weights, absent)}\n\n{total('')}"
    print(text)
    if arguments.record:
        about = f". Files without bytecode; imports: medians of {RUNS} runs."
        record("what each dependency weighs", [text], about)
    return 0


if __name__ == "__main__":
    sys.exit(main())
