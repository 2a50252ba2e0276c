# SPDX-License-Identifier: Apache-2.0
"""Reads a store as one job may: its scopes, and only what somebody vouches for."""

from msgspec import Struct

from ci_doctor.store.candidates import CandidateManifest, manifests, read_manifest
from ci_doctor.store.layout import VERSION, parse_manifest_name
from ci_doctor.store.limits import StoreLimits
from ci_doctor.store.objects import ObjectStore
from ci_doctor.store.trust.policy import TrustRules


class TrustedStore(Struct, frozen=True, kw_only=True):
    """A store, the scopes that are read in order of preference, and whom to believe."""

    store: ObjectStore
    scopes: tuple[str, ...]
    rules: TrustRules

    def names(self, family: str, hard: str) -> list[str]:
        """The manifests of a family and a hard identity, the newest first. Raises StoreError."""
        return manifests(self.store, self.scopes, family, hard)

    def all_names(self, family: str) -> list[str]:
        """The manifests of a family of any identity, the newest first. Raises StoreError."""
        dated = []
        for scope in self.scopes:
            for entry in self.store.names(f"{VERSION}/{scope}/manifests/{family}/"):
                parsed = parse_manifest_name(entry.name)
                if parsed is not None:
                    dated.append((-parsed.created_ms, entry.name))
        return [name for _, name in sorted(dated)]

    def read(self, name: str) -> CandidateManifest:
        """The manifest `name`. Raises UntrustedError, DamagedError, StoreError."""
        return read_manifest(self.store, name, self.rules, StoreLimits())
