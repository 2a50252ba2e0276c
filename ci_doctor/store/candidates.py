# SPDX-License-Identifier: Apache-2.0
"""Reads manifests of a store: which there are, and what one holds if it may be used."""

import hashlib
from collections.abc import Iterable

import msgspec

from ci_doctor.store.check_manifest import check_manifest
from ci_doctor.store.errors import DamagedError, StoreError, StoreFailure
from ci_doctor.store.layout import (
    check_name,
    manifests_prefix,
    parse_manifest_name,
    signature_name,
)
from ci_doctor.store.limits import StoreLimits
from ci_doctor.store.manifest import Manifest, decode
from ci_doctor.store.objects import ObjectStore
from ci_doctor.store.trust.policy import TrustRules, Vouched, vouch
from ci_doctor.store.trust.scopes import readable_packs
from ci_doctor.store.trust.ssh_wire import MOST_ARMORED_BYTES
from ci_doctor.store.trust.untrusted import Distrust, UntrustedError


class CandidateManifest(msgspec.Struct, frozen=True, kw_only=True):
    """A manifest that may be used, where it lies, and who vouches for it."""

    name: str
    scope: str
    manifest: Manifest
    vouched: Vouched


def manifests(store: ObjectStore, scopes: Iterable[str], family: str, hard: str) -> list[str]:
    """The names of all manifests of a family and a hard identity (32 hex digits), newest first.

    Of the same time, those of an earlier scope come first. Nothing is read but names. Raises
    StoreError.
    """
    dated = []
    for place, scope in enumerate(scopes):
        for entry in store.names(manifests_prefix(scope, family, hard)):
            parsed = parse_manifest_name(entry.name)
            if parsed is not None:
                dated.append((-parsed.created_ms, place, entry.name))
    return [name for _, _, name in sorted(dated)]


def read_manifest(
    store: ObjectStore, name: str, rules: TrustRules, limits: StoreLimits
) -> CandidateManifest:
    """The manifest of this name, if it may be used.

    The signature is checked before anything is decompressed or parsed. Raises UntrustedError if
    nobody vouches for it, if it has expired, or stands under a name that is not its own; DamagedError
    and LimitError as decode() and check_manifest() do; StoreError if the store fails.
    """
    parsed = parse_manifest_name(name)
    if parsed is None:
        raise DamagedError(f"{name} is not the name of a manifest")
    content = store.read(name, limits.manifest_bytes)
    if content is None:
        raise StoreError(StoreFailure.MISSING, f"{store.location}/{name} does not exist any more")
    signature = store.read(signature_name(name), MOST_ARMORED_BYTES)
    armored = None if signature is None else signature.decode(errors="replace")
    vouched = vouch(content, armored, parsed.scope, rules, shared=store.shared)
    digest = hashlib.sha256(content).hexdigest()
    if digest != parsed.sha256:
        raise DamagedError(f"{name} was changed: its bytes do not have the digest in its name")
    manifest = decode(content, limits)
    check_manifest(manifest, limits)
    _check_place(name, digest, manifest)
    _check_expiry(manifest, rules.now_ms)
    return CandidateManifest(name=name, scope=parsed.scope, manifest=manifest, vouched=vouched)


def _check_place(name: str, digest: str, manifest: Manifest) -> None:
    """Raise UntrustedError unless the manifest belongs under `name`, and its packs to the scope."""
    try:
        scope = check_name(name, manifest, digest)
    except DamagedError as error:
        raise UntrustedError(
            Distrust.REPLAYED, "it was saved for another identity and copied here"
        ) from error
    foreign = {pack.scope for pack in manifest.packs} - readable_packs(scope)
    if foreign:
        message = f"it refers to packs of {', '.join(sorted(foreign))}, which {scope} may not use"
        raise UntrustedError(Distrust.REPLAYED, message)


def _check_expiry(manifest: Manifest, now_ms: int) -> None:
    if manifest.expires_ms <= now_ms:
        hours = (now_ms - manifest.expires_ms) // 3_600_000
        raise UntrustedError(
            Distrust.EXPIRED, f"it expired {hours} hours ago", hint="save the cache again"
        )
