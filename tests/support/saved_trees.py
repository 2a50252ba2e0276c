"""Small trees, saved to a directory store and restored from it."""

import os
from collections.abc import Mapping
from pathlib import Path

from ci_doctor.store.directory_store import DirectoryStore
from ci_doctor.store.manifest import IdentityTier, Manifest, ManifestHeader, Origin, decode
from ci_doctor.store.objects import StoreLimits
from ci_doctor.store.restore import RestoredTree, RestoreRules, restore_tree
from ci_doctor.store.save import SavedTree, SaveRules, save_tree
from ci_doctor.store.transfer import Deadline

TIER = IdentityTier(facts={"arch": "x86_64"}, unknown=("driver",))
LONG_AGO_NS = 1_700_000_000_123_456_789


def header(root: Path) -> ManifestHeader:
    return ManifestHeader(
        family="triton",
        hard=TIER,
        path=TIER,
        soft=TIER,
        root=str(root),
        created_ms=1_800_000_000_000,
        expires_ms=1_900_000_000_000,
        origin=Origin(tool="0.1"),
    )


def plant(folder: Path, files: Mapping[str, bytes]) -> Path:
    """Write files with a time that is long ago."""
    for path, content in files.items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
        os.utime(place, ns=(LONG_AGO_NS, LONG_AGO_NS))
    return folder


def content_of(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def save(store: DirectoryStore, tree: Path, parent: Manifest | None = None) -> SavedTree:
    rules = SaveRules(scope="local", deadline=Deadline(60), parent=parent)
    return save_tree(store, tree, header(tree), rules)


def manifest_of(store: DirectoryStore, saved: SavedTree) -> Manifest:
    content = store.read(saved.manifest_name, 1 << 30)
    assert content is not None
    return decode(content, StoreLimits())


def saved_manifest(store: DirectoryStore, tree: Path) -> Manifest:
    return manifest_of(store, save(store, tree))


def restore(store: DirectoryStore, manifest: Manifest, target: Path) -> RestoredTree:
    return restore_tree(store, manifest, target, RestoreRules(deadline=Deadline(60)))
