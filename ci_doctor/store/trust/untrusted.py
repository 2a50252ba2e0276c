# SPDX-License-Identifier: Apache-2.0
"""Pure. Why what a store holds is not used: each kind of missing trust has its own reason."""

import enum

from ci_doctor.store.errors import StoreError, StoreFailure


class Distrust(enum.StrEnum):
    """The reason, for programs and tests; the message says it to people."""

    UNSIGNED = "unsigned"
    MALFORMED = "malformed"
    UNKNOWN_KEY = "unknown-key"
    WRONG_NAMESPACE = "wrong-namespace"
    TAMPERED = "tampered"
    KEY_NOT_VALID_NOW = "key-not-valid-now"
    EXPIRED = "expired"
    REPLAYED = "replayed"


class UntrustedError(StoreError):
    """Content is not used, because nobody who may has vouched for it: `distrust` says why."""

    def __init__(self, distrust: Distrust, message: str, *, hint: str | None = None) -> None:
        super().__init__(StoreFailure.REFUSED, message, hint=hint)
        self.distrust = distrust
