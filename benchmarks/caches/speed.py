# SPDX-License-Identifier: Apache-2.0
"""What it costs to save and to restore a cache of kernels, beside `cp -r` and tar with zstd in the same run.

    python benchmarks/caches/speed.py --directory /dev/shm            prints the ratios, and whether each is within its target
    python benchmarks/caches/speed.py --directory /dev/shm --record   also appends them to benchmarks/RESULTS.md
    python benchmarks/caches/speed.py --gigabytes 10 --memory-only    the peak memory of saving and restoring 10 GB

The contenders take turns; each figure is a median of wall clock. Ours are whole processes that import what they need,
and read and check the manifest. What they restore is verified; what tar unpacks is not.
"""

import argparse
import json
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.caches.corpus import change, make_corpus
from ci_doctor.store.deadline import Deadline
from ci_doctor.store.directory_store import DirectoryStore
from ci_doctor.store.limits import StoreLimits
from ci_doctor.store.manifest import Manifest, decode
from ci_doctor.store.restore import RestoreRules, restore_tree
from ci_doctor.store.save import SaveRules, save_tree
from tests.support.saved_trees import header

RESULTS = Path(__file__).parents[1] / "RESULTS.md"
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


def stored(store: DirectoryStore, name: str) -> Manifest:
    content = store.read(name, 1 << 30)
    if content is None:
        raise SystemExit(f"{name} is gone")
    return decode(content, StoreLimits())


def act(folder: Path, action: str, parent: str) -> None:
    """One action in a process of its own; prints the name of a manifest, bytes and peak memory."""
    store = DirectoryStore(folder / "store")
    result = {"name": parent, "bytes": 0}
    if action == "save":
        rules = SaveRules(
            scope="local",
            deadline=Deadline(600),
            parent=stored(store, parent) if parent else None,
        )
        saved = save_tree(store, folder / "tree", header(folder / "tree"), rules)
        result = {"name": saved.manifest_name, "bytes": saved.stored_bytes}
    else:
        rules_of_restore = RestoreRules(deadline=Deadline(600))
        restore_tree(store, stored(store, parent), folder / "restored", rules_of_restore)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({**result, "memory": peak}))


def ours(folder: Path, action: str, parent: str) -> tuple[float, dict[str, float], str]:
    """Seconds, figures, and the manifest's name."""
    command = [sys.executable, __file__, "--act", action, "--parent", parent]
    started = time.perf_counter()
    ended = subprocess.run(
        [*command, "--directory", str(folder)], check=True, stdout=subprocess.PIPE, text=True
    )
    took = time.perf_counter() - started
    answer = json.loads(ended.stdout)
    return took, {"bytes": answer["bytes"], "memory": answer["memory"]}, answer["name"]


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
    row["save"], figures, name = ours(folder, "save", "")
    row["bytes"], row["memory save"] = figures["bytes"], figures["memory"]
    for place in ("copy", "restored", "unpacked"):
        shutil.rmtree(folder / place, ignore_errors=True)
    row["cp"] = clock("cp -r tree copy", folder)
    shutil.rmtree(folder / "copy")
    row["restore"], figures, _ = ours(folder, "restore", name)
    row["memory restore"] = figures["memory"]
    if number == 0:
        subprocess.run(["diff", "-r", "tree", "restored"], cwd=folder, check=True)
    shutil.rmtree(folder / "restored")
    (folder / "unpacked").mkdir()
    row["untar"] = clock("zstd -q -dc archive.zst | tar xf - -C unpacked", folder)
    shutil.rmtree(folder / "unpacked")
    change(folder / "tree", 0.01, seed=number)
    time.sleep(QUIET_S)
    row["save 1 %"], figures, _ = ours(folder, "save", name)
    row["bytes 1 %"] = figures["bytes"]
    return row


def as_markdown(target: Target, medians: dict[str, float]) -> tuple[str, bool]:
    mine, reference = medians[target.ours], medians[target.reference]
    ratio = mine / reference
    within = ratio <= target.most
    figures = f"{mine:,.2f} | {reference:,.2f} | {ratio:.3f} | {target.most:g}"
    return f"| {target.title} | {figures} | {'yes' if within else 'no'} |", within


HEAD = "| | ours | reference | ratio | target | within |\n|---|--:|--:|--:|--:|---|"


def record(lines: list[str], title: str) -> None:
    machine = f"Python {platform.python_version()}, {platform.system()} {platform.machine()}, {os.cpu_count()} CPUs"
    with RESULTS.open("a", encoding="utf-8") as file:
        file.write(
            f"\n## {datetime.now(UTC):%Y-%m-%d}: {title}\n\n{machine}. Seconds, bytes and MB; medians.\n\n"
        )
        file.write("\n".join([HEAD, *lines]) + "\n")


def memory_only(folder: Path) -> int:
    _, saving, name = ours(folder, "save", "")
    _, restoring, _ = ours(folder, "restore", name)
    print(f"peak memory: save {saving['memory']:.0f} MB, restore {restoring['memory']:.0f} MB")
    return int(max(saving["memory"], restoring["memory"]) > MEMORY_MB)


def measure(folder: Path, arguments: argparse.Namespace) -> int:
    size = round(arguments.gigabytes * 1.056e9)
    make_corpus(folder / "tree", files=arguments.files, bytes_in_all=size)
    if arguments.memory_only:
        return memory_only(folder)
    load = os.getloadavg()[0]
    rows = [one_round(folder, number) for number in range(arguments.rounds)]
    medians = {key: statistics.median(row[key] for row in rows) for key in rows[0]}
    judged = [as_markdown(target, medians) for target in TARGETS]
    lines = [line for line, _ in judged]
    print(HEAD, *lines, sep="\n")
    if arguments.record:
        title = f"saving and restoring {arguments.files:,} files of {arguments.gigabytes:g} GB, {arguments.rounds} alternating rounds, load {load:.1f}"
        record(lines, title)
    return 0 if all(within for _, within in judged) else 1


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--directory", type=Path, help="where files are made: six times their size")
    parser.add_argument("--files", type=int, default=20_000)
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--memory-only", action="store_true")
    parser.add_argument("--record", action="store_true", help="append the rows to RESULTS.md")
    parser.add_argument("--act", choices=("save", "restore"), help=argparse.SUPPRESS)
    parser.add_argument("--parent", default="", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.act:
        act(arguments.directory, arguments.act, arguments.parent)
        return 0
    with tempfile.TemporaryDirectory(dir=arguments.directory, prefix="speed-") as name:
        return measure(Path(name), arguments)


if __name__ == "__main__":
    sys.exit(main())
