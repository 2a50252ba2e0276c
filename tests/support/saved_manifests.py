"""Manifests and receipts of a cache, with what a test does not care about filled in."""

import hashlib
from pathlib import Path

from ci_doctor.caches.trusted_store import InstalledFile, Receipt
from ci_doctor.store.manifest import (
    SCHEMA,
    FileEntry,
    IdentityTier,
    Manifest,
    Origin,
    encode,
    manifest_name,
)
from ci_doctor.store.objects import ObjectStore

NOTHING = IdentityTier(facts={})
EMPTY_FILE = FileEntry(path="a", bytes=0, mode=0o644, mtime_ns=0, digest="0" * 64, pieces=())


def saved_manifest(created_ms: int, expires_ms: int, **changes: object) -> Manifest:
    """A manifest of no file, for a family whose identity is `hard`."""
    fields: dict[str, object] = {
        "schema": SCHEMA,
        "family": "triton",
        "hard": NOTHING,
        "path": NOTHING,
        "soft": NOTHING,
        "root": "/cache",
        "created_ms": created_ms,
        "expires_ms": expires_ms,
        "origin": Origin(tool="0"),
        "cold": None,
        "packs": (),
        "frames": (),
        "files": (),
    }
    return Manifest(**{**fields, **changes})  # type: ignore[arg-type]


def put_manifest(store: ObjectStore, scope: str, manifest: Manifest) -> str:
    """Store it without a signature, under its name, which is returned."""
    content = encode(manifest)
    name = manifest_name(scope, manifest, hashlib.sha256(content).hexdigest())
    store.create(name, content)
    return name


def receipt(root: str | Path, **changes: object) -> Receipt:
    """A receipt of one file that was restored to `root`."""
    fields: dict[str, object] = {
        "family": "triton",
        "root": str(root),
        "store": "/store",
        "manifest": "v1/local/manifests/triton/x",
        "created_ms": 1,
        "installed_ns": 2,
        "bytes": 3,
        "fetched_bytes": 2,
        "seconds": 0.5,
        "origin": Origin(tool="ci-doctor 1"),
        "cold": None,
        "path": NOTHING,
        "saved_path": NOTHING,
        "soft": NOTHING,
        "saved_soft": NOTHING,
        "job": None,
        "counts": None,
        "installed": 1,
        "files": (InstalledFile(path="a/b", bytes=3, mtime_ns=7, digest="00"),),
    }
    return Receipt(**{**fields, **changes})  # type: ignore[arg-type]
