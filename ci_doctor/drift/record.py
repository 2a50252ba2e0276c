# SPDX-License-Identifier: Apache-2.0
"""Pure. RECORD: the files of an installed distribution with their hashes.

https://packaging.python.org/specifications/recording-installed-packages/#the-record-file
"""

import base64
import hashlib
from collections.abc import Mapping
from typing import Final

# Of 43 characters of a SHA-256: 96 bits tell two contents apart, and a snapshot stays small.
_KEPT: Final = 16
_SHA256: Final = "sha256="
# Installers write these, and not the wheel: they differ from machine to machine.
_INSTALLERS_OWN: Final = frozenset(
    {"INSTALLER", "REQUESTED", "RECORD", "direct_url.json", "provenance_url.json", "uv_cache.json"}
)


def recorded_files(text: str) -> dict[str, str]:
    """Path -> the first characters of its hash, by path; the same wherever the wheel is installed.

    Scripts lie outside of the site directory and name their interpreter; bytecode has no hash. Both
    are left out. A hash that is no SHA-256 keeps its algorithm in front.
    """
    files: dict[str, str] = {}
    for line in text.splitlines():
        path, _, rest = line.rpartition(",")[0].rpartition(",")
        if not rest or path.startswith(("..", "/")):
            continue
        if path.startswith('"'):
            path = path.strip('"').replace('""', '"')
        if ".dist-info/" in path and path.rpartition("/")[2] in _INSTALLERS_OWN:
            continue
        files[path] = _shortened(rest)
    return dict(sorted(files.items()))


def _shortened(text: str) -> str:
    if text.startswith(_SHA256):
        return text[len(_SHA256) : len(_SHA256) + _KEPT]
    algorithm, _, digest = text.partition("=")
    return f"{algorithm}={digest[:_KEPT]}"


def is_comparable(recorded: str) -> bool:
    """Whether `recorded` is a SHA-256, and so can be compared with `content_hash`."""
    return "=" not in recorded


def content_hash(digest: bytes) -> str:
    """A SHA-256 in the form in which `recorded_files` gives one."""
    return base64.urlsafe_b64encode(digest).decode("ascii")[:_KEPT]


def by_folder(files: Mapping[str, str]) -> dict[str, str]:
    """Path -> hash at the first two levels: `torch/version.py`, and `torch/nn/` for all below it.

    One hash stands for the metadata. A package with thousands of files has some ten of these.
    """
    folders: dict[str, dict[str, str]] = {}
    for path, hash_ in files.items():
        parts = path.split("/", 2)
        key = path
        if parts[0].endswith(".dist-info"):
            key = f"{parts[0]}/"
        elif len(parts) > 2:
            key = f"{parts[0]}/{parts[1]}/"
        folders.setdefault(key, {})[path] = hash_
    return {
        key: digest_of(below) if key.endswith("/") else below[key]
        for key, below in sorted(folders.items())
    }


def digest_of(files: Mapping[str, str]) -> str:
    """One hash, in hex, over all of `files`, in whatever order an installer wrote them."""
    lines = [f"{path} {files[path]}" for path in sorted(files)]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:_KEPT]
