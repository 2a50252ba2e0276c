# SPDX-License-Identifier: Apache-2.0
"""Acts on the folder it runs in: makes coverage's data of the records of tests/support/measure.py, and removes them."""

import marshal
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import coverage

_LINE = (1 << 28) - 1


def arcs_of(packed: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Pairs of line numbers: coverage's tracer packs a pair in an int, 28 bits for each and one for each sign."""
    for pair in packed:
        before = pair & _LINE
        after = pair >> 28 & _LINE
        yield (-before if pair & 1 << 56 else before, -after if pair & 1 << 57 else after)


def gather(root: Path) -> dict[str, set[int]]:
    """What all records in `root` hold together, by file."""
    together = defaultdict[str, set[int]](set)
    for record in root.glob(".coverage.*.arcs"):
        for path, packed in marshal.loads(record.read_bytes()).items():
            together[path] |= packed
        record.unlink()
    # A process that was killed while it wrote leaves a part, which coverage would take for its own.
    for part in root.glob(".coverage.*.part"):
        part.unlink()
    return together


def write(root: Path) -> None:
    """Write `.coverage`; files of the package that nobody has run are in it too, with nothing run."""
    data = coverage.CoverageData(str(root / ".coverage"))
    data.add_arcs({path: list(arcs_of(packed)) for path, packed in gather(root).items()})
    data.touch_files([str(path) for path in (root / "ci_doctor").rglob("*.py")])
    data.write()


if __name__ == "__main__":
    write(Path.cwd().resolve())
