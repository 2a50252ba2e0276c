# SPDX-License-Identifier: Apache-2.0
"""One save or one restore in a process of its own, which imports only what that needs: for speed.py.

    python benchmarks/caches/store_action.py save FOLDER [PARENT]      FOLDER/tree to FOLDER/store
    python benchmarks/caches/store_action.py restore FOLDER MANIFEST   FOLDER/store to FOLDER/restored

It prints one line of JSON: the manifest's name, the bytes that were moved, the seconds of the action
itself, without the start of Python and the imports, and the peak memory in MB.
"""

import sys
import time
from pathlib import Path

import msgspec

from ci_doctor.store.directory_store import DirectoryStore
from ci_doctor.store.manifest import IdentityTier, Manifest, ManifestHeader, Origin, decode
from ci_doctor.store.objects import StoreLimits
from ci_doctor.store.transfer import Deadline

ALLOWED_S = 600.0


class StoreAction(msgspec.Struct, frozen=True, kw_only=True):
    """What an action did: `bytes` moved, `seconds` of the action itself, `memory` in MB."""

    manifest: str
    bytes: int
    seconds: float
    memory: float


def header(root: Path) -> ManifestHeader:
    tier = IdentityTier(facts={"arch": "x86_64"})
    return ManifestHeader(
        family="triton",
        hard=tier,
        path=tier,
        soft=tier,
        root=str(root),
        created_ms=1_800_000_000_000,
        expires_ms=1_900_000_000_000,
        origin=Origin(tool="benchmark"),
    )


def stored(store: DirectoryStore, name: str) -> Manifest:
    content = store.read(name, 1 << 30)
    if content is None:
        raise SystemExit(f"{name} is gone")
    return decode(content, StoreLimits())


def save(store: DirectoryStore, folder: Path, parent: str) -> StoreAction:
    from ci_doctor.store.save import SaveRules, save_tree

    started = time.perf_counter()
    rules = SaveRules(
        scope="local",
        deadline=Deadline(ALLOWED_S),
        parent=stored(store, parent) if parent else None,
    )
    saved = save_tree(store, folder / "tree", header(folder / "tree"), rules)
    return done(saved.manifest_name, saved.stored_bytes, started)


def restore(store: DirectoryStore, folder: Path, manifest: str) -> StoreAction:
    from ci_doctor.store.restore import RestoreRules, restore_tree

    started = time.perf_counter()
    rules = RestoreRules(deadline=Deadline(ALLOWED_S))
    restored = restore_tree(store, stored(store, manifest), folder / "restored", rules)
    return done(manifest, restored.fetched_bytes, started)


def done(manifest: str, size: int, started: float) -> StoreAction:
    return StoreAction(
        manifest=manifest,
        bytes=size,
        seconds=time.perf_counter() - started,
        memory=peak_memory_mb(),
    )


def peak_memory_mb() -> float:
    """The most that was resident. getrusage(2) would count the process that started this one, too."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 1024


def main(action: str, folder: Path, manifest: str = "") -> None:
    act = {"save": save, "restore": restore}[action]
    print(msgspec.json.encode(act(DirectoryStore(folder / "store"), folder, manifest)).decode())


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])
