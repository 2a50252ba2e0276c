# SPDX-License-Identifier: Apache-2.0
"""Reads the templates of the shim: whether a file is what a failed write left of a file of ours.

A full disk leaves files cut off or empty, a power loss leaves zeros. Such a file can be replaced
or removed, because nothing of anybody else is in it. A file of that name without proof is not ours.
"""

import json
from collections.abc import Mapping
from typing import Final

from ci_doctor.preload.preload_rule import PreloadRule
from ci_doctor.preload.shim_files import (
    FILES,
    FINDER,
    MANIFEST,
    OWNER,
    OWNER_LINE,
    RULES_BEGIN,
    ShimManifest,
    recover_rules,
    shim_files,
)

_OWNED: Final = f'"managed_by": "{OWNER}"'.encode()
# How every manifest begins, in all its forms.
_HEADS: Final = (
    b'{\n  "made_cache": true,\n  ' + _OWNED,
    b'{\n  "made_cache": false,\n  ' + _OWNED,
    b"{\n  " + _OWNED,
)


def names_us(content: bytes) -> bool:
    """Whether a file of the shim carries the line by which we know it."""
    return OWNER_LINE.encode() in content.splitlines()[:2]


def damaged_files(contents: Mapping[str, bytes], manifest: ShimManifest | None) -> frozenset[str]:
    """The names of those files whose content is what is left of ours.

    `contents` are the regular files by name. `manifest` is None if it is damaged or missing.
    """
    left = {name: content.rstrip(b"\0") for name, content in contents.items()}
    is_damaged_manifest = manifest is None and _is_rest_of_manifest(left.get(MANIFEST))
    if not _is_proven(left, manifest):
        return frozenset()
    rules = known_rules(contents, manifest)
    damaged = {MANIFEST} if is_damaged_manifest else set()
    for name in FILES:
        if name == MANIFEST or name not in left:
            continue
        is_unverifiable = is_damaged_manifest and names_us(left[name])
        if is_unverifiable or _is_rest(name, contents[name], left[name], rules, manifest):
            damaged.add(name)
    return frozenset(damaged)


def known_rules(
    contents: Mapping[str, bytes], manifest: ShimManifest | None
) -> tuple[PreloadRule, ...] | None:
    """The rules by the manifest, else by an unchanged finder; None if neither is there."""
    if manifest is not None:
        return manifest.parsed_rules
    return recover_rules(contents.get(FINDER, b""))


def _is_proven(left: Mapping[str, bytes], manifest: ShimManifest | None) -> bool:
    """Whether any of the files shows that a shim of ours is here, or was being written."""
    if manifest is not None:
        return True
    if any(name != MANIFEST and names_us(content) for name, content in left.items()):
        return True
    if any(left.get(MANIFEST, b"").startswith(head) for head in _HEADS):
        return True
    # All four names, and nothing in any of them.
    return set(left) == set(FILES) and not any(left.values())


def _is_rest_of_manifest(left: bytes | None) -> bool:
    if left is None:
        return False
    try:
        json.loads(left)
    except ValueError:
        return any(head.startswith(left) or left.startswith(head) for head in _HEADS)
    return False


def _is_rest(
    name: str,
    content: bytes,
    left: bytes,
    rules: tuple[PreloadRule, ...] | None,
    manifest: ShimManifest | None,
) -> bool:
    expected = shim_files(rules or ())[name]
    if name == FINDER and rules is None:
        # Up to its rules, which are not known.
        expected = expected.partition(RULES_BEGIN.encode())[0]
    # Without the manifest a whole file of ours is what is left of a shim.
    if (manifest is None or content != expected) and expected.startswith(left):
        return True
    # Another version wrote it: every file of ours ends with a line feed.
    is_listed = manifest is not None and name in manifest.sha256
    return is_listed and names_us(left) and not content.endswith(b"\n")
