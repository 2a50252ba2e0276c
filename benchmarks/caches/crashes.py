# SPDX-License-Identifier: Apache-2.0
"""What a save and a restore leave if they are killed: at each system call, and at random moments.

    python benchmarks/caches/crashes.py --directory /dev/shm                  20 files, every system call
    python benchmarks/caches/crashes.py --directory /dev/shm --moments 200    and 200 moments of 1,000 files (20 MB) each
    python benchmarks/caches/crashes.py --directory /dev/shm --moments 200 --record    also appends them to RESULTS.md

Ends with 1 if one tree was neither the old nor the new one, if a file of somebody else was lost or
changed, if a marker stood before its group, or if the next run did not finish the work; with 77 if
ptrace is forbidden here.
"""

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.caches.corpus import make_corpus
from benchmarks.caches.killing import PtraceForbiddenError, killed_after, killed_at_call
from benchmarks.results import load, options, record, table
from ci_doctor.store.directory_store import DirectoryStore
from ci_doctor.store.manifest import Manifest, decode
from ci_doctor.store.objects import StoreLimits
from ci_doctor.store.restore import RestoreRules, restore_tree
from ci_doctor.store.save import SaveRules, save_tree
from ci_doctor.store.transfer import Deadline
from ci_doctor.system.files.access import is_own_name
from tests.support.saved_trees import content_of, header

HEAD = "killed at | kills | faults"
OWN = {"own/kernel.cubin": b"compiled here"}


class Scene(NamedTuple):
    """A tree that is saved, the same with a change, its store, and where the trials take place."""

    tree: Path
    changed: Path
    store: DirectoryStore
    manifest: Manifest
    content: dict[str, bytes]
    trial: Path


def is_marker(path: str) -> bool:
    return path.endswith("kernel.ttgir")


def restore(scene: Scene) -> None:
    rules = RestoreRules(deadline=Deadline(100), markers=is_marker)
    restore_tree(scene.store, scene.manifest, scene.trial / "cache", rules)


def save(scene: Scene) -> None:
    rules = SaveRules(scope="local", deadline=Deadline(100), parent=scene.manifest)
    store = DirectoryStore(scene.trial / "store")
    save_tree(store, scene.changed, header(scene.tree), rules)


def nothing(scene: Scene) -> None:
    scene.trial.mkdir()


def own_files(scene: Scene) -> None:
    first = min(scene.content)
    for path, content in {**OWN, first: b"theirs"}.items():
        place = scene.trial / "cache" / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)


def own_store(scene: Scene) -> None:
    shutil.copytree(scene.store.directory, scene.trial / "store")


def check_new(scene: Scene, *, finished: bool) -> str | None:
    target = scene.trial / "cache"
    others = [
        path.name
        for path in scene.trial.iterdir()
        if path.name != "cache" and not is_own_name(path.name)
    ]
    if others:
        return f"{others} is left"
    if not target.exists():
        return "nothing was restored" if finished else None
    return None if content_of(target) == scene.content else "the new tree is not whole"


def check_merged(scene: Scene, *, finished: bool) -> str | None:
    target = scene.trial / "cache"
    expected = {**scene.content, **OWN, min(scene.content): b"theirs"}
    present = {
        path: content
        for path, content in content_of(target).items()
        if not is_own_name(path.partition("/")[0])
    }
    if not {*OWN, min(scene.content)} <= set(present):
        return "an entry of somebody else is lost"
    if any(expected.get(path) != content for path, content in present.items()):
        return "a file is neither theirs nor ours"
    if finished and present != expected:
        return "the tree is not whole"
    if any(is_marker(path) for path in present):
        missing = [path for path in expected if path not in present and not is_marker(path)]
        return f"a marker stands before {missing[0]}" if missing else None
    return None


def check_saved(scene: Scene, *, finished: bool) -> str | None:
    store = DirectoryStore(scene.trial / "store")
    old = content_of(scene.store.directory)
    now = content_of(store.directory)
    if any(now.get(name) != content for name, content in old.items()):
        return "an object of somebody else is lost"
    manifests = [name for name in now if name.endswith(".json.zst") and "/." not in name]
    if finished and len(manifests) != 2:
        return f"{len(manifests)} manifests instead of 2"
    for name in set(manifests) - set(old):
        rules = RestoreRules(deadline=Deadline(100))
        manifest = manifest_by_name(store, name)
        restore_tree(store, manifest, scene.trial / "out", rules)
        if content_of(scene.trial / "out") != content_of(scene.changed):
            return "the new manifest is not that of the tree"
        shutil.rmtree(scene.trial / "out")
    return None


def manifest_by_name(store: DirectoryStore, name: str) -> Manifest:
    content = store.read(name, 1 << 30)
    if content is None:
        raise RuntimeError(f"{name} is gone")
    return decode(content, StoreLimits())


class Case(NamedTuple):
    """What is set up, what is killed, and what is looked at afterwards."""

    name: str
    prepare: Callable[[Scene], None]
    work: Callable[[Scene], None]
    check: Callable[..., str | None]


CASES = (
    Case("restore to nothing", nothing, restore, check_new),
    Case("restore into a tree", own_files, restore, check_merged),
    Case("save", own_store, save, check_saved),
)


def trial(
    case: Case, scene: Scene, kill: Callable[[Callable[[], object]], bool]
) -> tuple[bool, str | None]:
    """Whether it was killed in time, and what is wrong afterwards or after the next run."""
    shutil.rmtree(scene.trial, ignore_errors=True)
    case.prepare(scene)
    killed = kill(lambda: case.work(scene))
    wrong = case.check(scene, finished=not killed)
    if wrong is None and killed:
        case.work(scene)
        wrong = case.check(scene, finished=True)
    return killed, wrong


def at_every_call(case: Case, scene: Scene, every: int) -> tuple[int, list[str]]:
    """How often it was killed, and what went wrong at which call."""
    faults = []
    number = every
    while True:
        killed, wrong = trial(case, scene, lambda work: killed_at_call(work, number))  # noqa: B023
        if wrong is not None:
            faults.append(f"{case.name}, killed at system call {number}: {wrong}")
        if not killed:
            return number // every - 1, faults
        number += every


def at_moments(
    case: Case, scene: Scene, moments: int, chance: random.Random
) -> tuple[int, list[str]]:
    shutil.rmtree(scene.trial, ignore_errors=True)
    case.prepare(scene)
    started = time.perf_counter()
    killed_after(lambda: case.work(scene), 100)
    took = time.perf_counter() - started
    kills, faults = 0, []
    while kills < moments:
        seconds = chance.uniform(0, took)
        killed, wrong = trial(case, scene, lambda work: killed_after(work, seconds))  # noqa: B023
        kills += killed
        if wrong is not None:
            faults.append(f"{case.name}, killed after {seconds:.4f} s: {wrong}")
    return kills, faults


def make_scene(folder: Path, files: int, bytes_in_all: int) -> Scene:
    tree = folder / "tree"
    make_corpus(tree, files=files, bytes_in_all=bytes_in_all)
    store = DirectoryStore(folder / "store")
    saved = save_tree(store, tree, header(tree), SaveRules(scope="local", deadline=Deadline(100)))
    manifest = manifest_by_name(store, saved.manifest_name)
    content = content_of(tree)
    changed = folder / "changed"
    shutil.copytree(tree, changed)
    (changed / max(content)).write_bytes(b"changed")
    return Scene(tree, changed, store, manifest, content, folder / "trial")


def run_cases(
    folder: Path, arguments: argparse.Namespace
) -> tuple[list[tuple[object, ...]], list[str]]:
    """A row of the table for each case and way to kill it, and the faults."""
    cases = [case for case in CASES if arguments.case in {None, case.name}]
    rows: list[tuple[object, ...]] = []
    faults: list[str] = []

    def add(title: str, kills: int, wrong: list[str]) -> None:
        rows.append((title, kills, len(wrong)))
        print(*rows[-1], sep="\t", flush=True)
        faults.extend(wrong)

    small = make_scene(folder / "small", 20, 400_000)
    for case in cases:
        add(f"{case.name}, 20 files: system calls", *at_every_call(case, small, arguments.every))
    if arguments.moments:
        large = make_scene(folder / "large", 1_000, 20_000_000)
        chance = random.Random(arguments.seed)
        for case in cases:
            kills, wrong = at_moments(case, large, arguments.moments, chance)
            add(f"{case.name}, 1,000 files: random moments", kills, wrong)
    return rows, faults


def main() -> int:
    parser = options(__doc__)
    parser.add_argument("--directory", type=Path, help="where files are made")
    parser.add_argument(
        "--every", type=int, default=1, help="only at each n-th stop at a system call"
    )
    parser.add_argument(
        "--moments", type=int, default=0, help="kills at random moments, of each case"
    )
    parser.add_argument("--seed", type=int, default=17)
    names = [case.name for case in CASES]
    parser.add_argument("--case", choices=names, help="this one alone; several can run at once")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.directory, prefix="crashes-") as name:
        rows, faults = run_cases(Path(name), arguments)
    print(*faults, sep="\n", file=sys.stderr)
    if arguments.record:
        record("a save and a restore killed by -9", table(HEAD, rows), load())
    return 1 if faults else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PtraceForbiddenError:
        sys.exit(77)
