# SPDX-License-Identifier: Apache-2.0
"""What it costs to save and to restore a cache of kernels, beside `cp -r` and tar with zstd in the same run.

    python benchmarks/caches/speed.py --directory /dev/shm            prints the ratios, and whether each is within its target
    python benchmarks/caches/speed.py --directory /dev/shm --record   also appends them to benchmarks/RESULTS.md
    python benchmarks/caches/speed.py --gigabytes 10 --memory-only    the peak memory of saving and restoring 10 GB

The contenders take turns; each figure is a median of wall clock. Ours are whole processes that import what they need,
and read and check the manifest. What they restore is verified; what tar unpacks is not.
"""

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import msgspec

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.caches.corpus import change, make_corpus
from benchmarks.caches.store_action import StoreAction
from benchmarks.results import load, options, record, table

REPOSITORY = Path(__file__).parents[2]
# A tree that has just been written is given this long to be quiet, for all contenders.
QUIET_S = 0.5
MEMORY_MB = 300


class Target(NamedTuple):
    """A ratio of two measurements, and the most that it may be."""

    title: str
    ours: str
    reference: str
    most: float


TARGETS = (
    Target("restore, verified / cp -r", "restore", "cp", 1.15),
    Target("restore, verified / zstd -d, tar x, unverified", "restore", "untar", 1.0),
    Target("save / tar, zstd -3 -T2", "save", "tar", 0.6),
    Target("save, 1 % changed / tar, zstd -3 -T2", "save 1 %", "tar", 0.15),
    Target("bytes of that save / bytes of the archive", "bytes 1 %", "bytes tar", 0.03),
    Target("bytes of a whole save / bytes of the archive", "bytes", "bytes tar", 1.0),
    Target(f"memory of a restore, MB / {MEMORY_MB}", "memory restore", "memory", 1.0),
    Target(f"memory of a save, MB / {MEMORY_MB}", "memory save", "memory", 1.0),
)


def ours(folder: Path, action: str, manifest: str) -> tuple[float, StoreAction]:
    """Seconds of the whole process, and what it says."""
    command = [sys.executable, "-m", "benchmarks.caches.store_action", action, str(folder)]
    started = time.perf_counter()
    ended = subprocess.run([*command, manifest], check=True, stdout=subprocess.PIPE, cwd=REPOSITORY)
    took = time.perf_counter() - started
    return took, msgspec.json.decode(ended.stdout, type=StoreAction)


def clock(words: str, cwd: Path) -> float:
    started = time.perf_counter()
    subprocess.run(words, cwd=cwd, shell=True, check=True)
    return time.perf_counter() - started


def one_round(folder: Path, number: int) -> dict[str, float]:
    shutil.rmtree(folder / "store", ignore_errors=True)
    time.sleep(QUIET_S)
    row: dict[str, float] = {"memory": MEMORY_MB}
    row["tar"] = clock("tar -cf - tree | zstd -q -3 -T2 -f -o archive.zst", folder)
    row["bytes tar"] = (folder / "archive.zst").stat().st_size
    row["save"], saved = ours(folder, "save", "")
    row["save itself"] = saved.seconds
    row["bytes"], row["memory save"] = saved.bytes, saved.memory
    for place in ("copy", "restored", "unpacked"):
        shutil.rmtree(folder / place, ignore_errors=True)
    row["cp"] = clock("cp -r tree copy", folder)
    shutil.rmtree(folder / "copy")
    row["restore"], restored = ours(folder, "restore", saved.manifest)
    row["restore itself"], row["memory restore"] = restored.seconds, restored.memory
    if number == 0:
        subprocess.run(["diff", "-r", "tree", "restored"], cwd=folder, check=True)
    shutil.rmtree(folder / "restored")
    (folder / "unpacked").mkdir()
    row["untar"] = clock("zstd -q -dc archive.zst | tar xf - -C unpacked", folder)
    shutil.rmtree(folder / "unpacked")
    change(folder / "tree", 0.01, seed=number)
    time.sleep(QUIET_S)
    row["save 1 %"], again = ours(folder, "save", saved.manifest)
    row["bytes 1 %"] = again.bytes
    return row


def judged(target: Target, medians: dict[str, float]) -> tuple[str, ...]:
    mine, reference = medians[target.ours], medians[target.reference]
    figures = (f"{mine:,.2f}", f"{reference:,.2f}", f"{mine / reference:.3f}", f"{target.most:g}")
    return (target.title, *figures, "yes" if mine / reference <= target.most else "no")


HEAD = " | ours | reference | ratio | target | within"


def memory_only(folder: Path) -> int:
    _, saved = ours(folder, "save", "")
    _, restored = ours(folder, "restore", saved.manifest)
    print(f"peak memory: save {saved.memory:.0f} MB, restore {restored.memory:.0f} MB")
    return int(max(saved.memory, restored.memory) > MEMORY_MB)


def measure(folder: Path, arguments: argparse.Namespace) -> int:
    size = round(arguments.gigabytes * 1.056e9)
    make_corpus(folder / "tree", files=arguments.files, bytes_in_all=size)
    if arguments.memory_only:
        return memory_only(folder)
    before = load()
    rounds = [one_round(folder, number) for number in range(arguments.rounds)]
    medians = {key: statistics.median(row[key] for row in rounds) for key in rounds[0]}
    rows = [judged(target, medians) for target in TARGETS]
    parts = f"Of which, without the start of Python: save {medians['save itself']:.2f} s, restore {medians['restore itself']:.2f} s."
    lines = [*table(HEAD, rows), "", parts]
    print(*lines, sep="\n")
    if arguments.record:
        title = f"saving and restoring {arguments.files:,} files of {arguments.gigabytes:g} GB, {arguments.rounds} alternating rounds"
        record(title, lines, f"{before}. Seconds, bytes and MB; medians.")
    return 0 if all(row[-1] == "yes" for row in rows) else 1


def main() -> int:
    parser = options(__doc__)
    parser.add_argument("--directory", type=Path, help="where files are made: six times their size")
    parser.add_argument("--files", type=int, default=20_000)
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--memory-only", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.directory, prefix="speed-") as name:
        return measure(Path(name), arguments)


if __name__ == "__main__":
    sys.exit(main())
