# SPDX-License-Identifier: Apache-2.0
"""Pure. The names of objects in a store (schema 1).

v1/<scope>/packs/<2 hex>/<digest>.pack
v1/<scope>/manifests/<family>/<hard>/<created ms, 13 digits>-<sha256>.json.zst, and the same with .sig
"""

import re
from typing import Final

import msgspec

from ci_doctor.store.errors import DamagedError
from ci_doctor.store.manifest import Manifest

VERSION: Final = "v1"
_MANIFEST: Final = re.compile(
    r"v1/(?P<scope>[^/]+)/manifests/(?P<family>[^/]+)/(?P<hard>[0-9a-f]{32})"
    r"/(?P<created>[0-9]{13})-(?P<sha256>[0-9a-f]{64})\.json\.zst",
    re.ASCII,
)
_PACK: Final = re.compile(
    r"v1/(?P<scope>[^/]+)/packs/[0-9a-f]{2}/(?P<digest>[0-9a-f]{64})\.pack", re.ASCII
)


class ManifestName(msgspec.Struct, frozen=True, kw_only=True):
    """What the name of a manifest says."""

    scope: str
    family: str
    hard: str
    created_ms: int
    sha256: str


def parse_manifest_name(name: str) -> ManifestName | None:
    """What `name` says; None if it is not the name of a manifest."""
    match = _MANIFEST.fullmatch(name)
    if match is None:
        return None
    return ManifestName(
        scope=match["scope"],
        family=match["family"],
        hard=match["hard"],
        created_ms=int(match["created"]),
        sha256=match["sha256"],
    )


def pack_name(scope: str, digest: str) -> str:
    """The name of the pack whose bytes have this digest (hex)."""
    return f"{VERSION}/{scope}/packs/{digest[:2]}/{digest}.pack"


class PackName(msgspec.Struct, frozen=True, kw_only=True):
    """What the name of a pack says."""

    scope: str
    digest: str


def parse_pack_name(name: str) -> PackName | None:
    """What `name` says; None if it is not the name of a pack."""
    match = _PACK.fullmatch(name)
    if match is None:
        return None
    return PackName(scope=match["scope"], digest=match["digest"])


def manifests_prefix(scope: str, family: str, hard: str) -> str:
    """The prefix of the names of all manifests of a family and a hard identity (32 hex digits)."""
    return f"{VERSION}/{scope}/manifests/{family}/{hard}/"


def manifest_name(scope: str, manifest: Manifest, sha256: str) -> str:
    """The name of a manifest whose stored bytes have this SHA-256 (hex)."""
    prefix = manifests_prefix(scope, manifest.family, manifest.hard.digest()[:32])
    return f"{prefix}{manifest.created_ms:013d}-{sha256}.json.zst"


def signature_name(name: str) -> str:
    """The name of the signature over the manifest of this name."""
    return f"{name}.sig"


def check_name(name: str, manifest: Manifest, sha256: str) -> str:
    """The scope that `name` stands in, if manifest and digest agree with it.

    Raises DamagedError otherwise: a manifest copied under another name is no answer to a request.
    """
    parsed = parse_manifest_name(name)
    if parsed is None:
        raise DamagedError(f"{name} is not the name of a manifest")
    if manifest_name(parsed.scope, manifest, sha256) != name:
        raise DamagedError(f"{name} holds a manifest that belongs under another name")
    return parsed.scope
