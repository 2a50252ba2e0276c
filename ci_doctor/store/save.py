# SPDX-License-Identifier: Apache-2.0
"""Acts on a store: saves a directory tree as packs and, when all of them are there, its manifest.

A save that is killed leaves packs that no manifest refers to, and no manifest. What changes while it
is read is left out, and the result says so.
"""

import hashlib
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, Protocol

import msgspec

from ci_doctor.store.manifest import (
    FileEntry,
    Manifest,
    ManifestHeader,
    check_manifest,
    encode,
    is_segment,
    manifest_name,
    signature_name,
)
from ci_doctor.store.objects import (
    ObjectStore,
    StoreError,
    StoreFailure,
    StoreLimits,
    file_system_error,
)
from ci_doctor.store.packing import pack_files
from ci_doctor.store.plan import PackedFiles, assemble
from ci_doctor.store.transfer import Deadline
from ci_doctor.store.walk import WalkedTree, changed, reusable, settled, walk

_CHANGED: Final = "changed while it was saved"


class ManifestSigner(Protocol):
    """Makes signatures over the stored bytes of a manifest."""

    def sign(self, message: bytes) -> str:
        """An armored SSHSIG over `message`."""


class SaveRules(msgspec.Struct, frozen=True, kw_only=True):
    """How a tree is saved. Paths given to the functions are relative, with "/".

    `parent` is an earlier manifest that the caller trusts as it trusts this tree: what it says of a
    file of the same size and time (ns) is taken over, and signed, without reading the file.
    `group` names what belongs together: if one file of a group changes, all of it is left out.
    """

    scope: str
    deadline: Deadline
    parent: Manifest | None = None
    exclude: Callable[[str], bool] = lambda _path: False
    group: Callable[[str], str] = lambda path: path
    signer: ManifestSigner | None = None
    limits: StoreLimits = StoreLimits()


class SavedTree(msgspec.Struct, frozen=True, kw_only=True):
    """What was saved. `skipped` holds paths and reasons; all sizes are in bytes.

    `new_bytes` is of files that no earlier manifest held, `stored_bytes` what the store received.
    `created` is False if a manifest of that very name was there already.
    """

    manifest_name: str
    files: int
    bytes: int
    new_bytes: int
    stored_bytes: int
    skipped: tuple[tuple[str, str], ...]
    created: bool


def save_tree(
    store: ObjectStore, tree: Path, header: ManifestHeader, rules: SaveRules
) -> SavedTree:
    """Save `tree` for readers of `rules.scope`, and say what was left out.

    Raises StoreError if the tree cannot be read or holds nothing, if the store fails, or if time is
    up; LimitError if readers would refuse the tree. Then no manifest was written.
    """
    if not is_segment(rules.scope) or not is_segment(header.family):
        message = f"{rules.scope!r} or {header.family!r} cannot be part of an object's name"
        raise StoreError(StoreFailure.REFUSED, message, hint="use letters, digits, . _ and -")
    try:
        root = os.open(tree, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise file_system_error("read", tree, error) from error
    try:
        gathered = _gather(store, root, rules)
        manifest = assemble(header, gathered.parts)
        name, stored, created = _publish(store, manifest, rules)
        return SavedTree(
            manifest_name=name,
            files=len(manifest.files),
            bytes=manifest.bytes(),
            new_bytes=gathered.new_bytes,
            stored_bytes=gathered.stored_bytes + stored,
            skipped=tuple(sorted(gathered.skipped.items())),
            created=created,
        )
    except OSError as error:
        raise file_system_error("save", tree, error) from error
    finally:
        os.close(root)


class _TreeContent(msgspec.Struct, frozen=True, kw_only=True):
    """What of a tree goes into a manifest, and what does not; sizes are in bytes."""

    parts: tuple[PackedFiles, ...]
    skipped: dict[str, str]
    new_bytes: int
    stored_bytes: int


def _gather(store: ObjectStore, root: int, rules: SaveRules) -> _TreeContent:
    """Pack what is new. The walk's records end with this function, before a manifest is made of 200,000 files."""

    def look() -> WalkedTree:
        return walk(root, rules.exclude, rules.limits)

    tree, busy = settled(look, rules.deadline)
    rules.deadline.check("saving")
    files = [file for file in tree.files if file.path not in busy]
    kept = reusable(files, rules.parent, rules.scope)
    to_read = [file for file in files if file.path not in kept]
    result = pack_files(store, rules.scope, root, to_read, rules.deadline)
    late = busy | result.changed | changed(root, files)
    left_out = _with_groups(late, (file.path for file in tree.files), rules.group)
    new = [entry for entry in result.packed.files if entry.path not in left_out]
    parts = [msgspec.structs.replace(result.packed, files=new)]
    if rules.parent is not None:
        old = [
            _with_mode(kept[file.path], file.mode)
            for file in files
            if file.path in kept and file.path not in left_out
        ]
        parts.append(_of_parent(old, rules.parent))
    return _TreeContent(
        parts=tuple(parts),
        skipped={**dict(tree.skipped), **left_out},
        new_bytes=sum(entry.bytes for entry in new),
        stored_bytes=result.new_bytes,
    )


def _with_mode(entry: FileEntry, mode: int) -> FileEntry:
    return entry if entry.mode == mode else msgspec.structs.replace(entry, mode=mode)


def _of_parent(entries: list[FileEntry], parent: Manifest) -> PackedFiles:
    return PackedFiles(files=entries, frames=parent.frames, packs=parent.packs)


def _with_groups(
    late: frozenset[str], paths: Iterable[str], group: Callable[[str], str]
) -> dict[str, str]:
    """The paths to leave out, with reasons: those that changed, and all of their groups."""
    groups = {group(path) for path in late}
    if not groups:
        return {}
    reasons = {
        path: f"belongs to a file that {_CHANGED}" for path in paths if group(path) in groups
    }
    return {**reasons, **dict.fromkeys(late, _CHANGED)}


def _publish(store: ObjectStore, manifest: Manifest, rules: SaveRules) -> tuple[str, int, bool]:
    """Write signature and manifest; the name, the bytes written, and whether it is a new one.

    The signature comes first, so that nobody finds a manifest that has none yet.
    """
    if not manifest.files:
        message = f"{manifest.root} holds no file that can be saved"
        raise StoreError(StoreFailure.MISSING, message)
    check_manifest(manifest, rules.limits)
    rules.deadline.check("saving")
    content = encode(manifest)
    name = manifest_name(rules.scope, manifest, hashlib.sha256(content).hexdigest())
    written = 0
    if rules.signer is not None:
        signature = rules.signer.sign(content).encode()
        written += len(signature) if store.create(signature_name(name), signature) else 0
    created = store.create(name, content)
    return name, written + (len(content) if created else 0), created
