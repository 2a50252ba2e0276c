# SPDX-License-Identifier: Apache-2.0
"""Reads a store as one job may: its scopes, and only what somebody vouches for."""

from msgspec import Struct

from ci_doctor.store.candidates import Candidate, manifests, read_manifest
from ci_doctor.store.limits import StoreLimits
from ci_doctor.store.objects import ObjectStore
from ci_doctor.store.trust.policy import TrustRules
from ci_doctor.store.trust.scopes import namespace_of
from ci_doctor.store.trust.signer import Signer


class TrustedStore(Struct, frozen=True, kw_only=True):
    """A store, the scopes that are read in order of preference, and whom to believe."""

    store: ObjectStore
    scopes: tuple[str, ...]
    rules: TrustRules

    def names(self, family: str, hard: str) -> list[str]:
        """The manifests of a family and a hard identity, the newest first. Raises StoreError."""
        return manifests(self.store, self.scopes, family, hard)

    def read(self, name: str) -> Candidate:
        """The manifest `name`. Raises UntrustedError, DamagedError, StoreError."""
        return read_manifest(self.store, name, self.rules, StoreLimits())


class ScopeSigner:
    """Signs manifests of one scope: in another one the signature is worth nothing."""

    def __init__(self, signer: Signer, scope: str) -> None:
        self._signer = signer
        self._namespace = namespace_of(scope)

    def sign(self, message: bytes) -> str:
        """An armored SSHSIG over `message`."""
        return self._signer.sign(message, self._namespace)
