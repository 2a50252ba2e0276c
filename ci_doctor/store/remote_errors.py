# SPDX-License-Identifier: Apache-2.0
"""Pure. What obstore raises, as errors of a store without addresses of requests or secrets."""

import re
from typing import Final

from ci_doctor.store.errors import StoreError, StoreFailure

# Only these words of an error are repeated: the rest may hold signed addresses and keys.
_WORDS: Final = re.compile(
    r"HTTP error: [a-z ]+|status code: [0-9]{3}[A-Za-z ]*|[Nn]ot [Ii]mplemented", re.ASCII
)
_REASONS: Final = {
    "FileNotFoundError": StoreFailure.MISSING,
    "NotFoundError": StoreFailure.MISSING,
    "PermissionDeniedError": StoreFailure.REFUSED,
    "UnauthenticatedError": StoreFailure.REFUSED,
    "NotSupportedError": StoreFailure.REFUSED,
    "InvalidPathError": StoreFailure.REFUSED,
}
_STATUS: Final = re.compile(r"status code: ([0-9]{3})", re.ASCII)
_STATUSES: Final = {
    "401": StoreFailure.REFUSED,
    "403": StoreFailure.REFUSED,
    "404": StoreFailure.MISSING,
    "416": StoreFailure.DAMAGED,
    "501": StoreFailure.REFUSED,
    "507": StoreFailure.FULL,
}
_TEXTS: Final = {
    StoreFailure.MISSING: "it does not exist",
    StoreFailure.REFUSED: "the store refuses it",
    StoreFailure.UNREACHABLE: "the request failed",
}
_CREDENTIALS: Final = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a web identity or the role of the machine",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS or the service account of the machine",
    "az": "AZURE_STORAGE_ACCOUNT_KEY, AZURE_STORAGE_SAS_TOKEN or the identity of the machine",
}


def remote_error(action: str, place: str, error: Exception) -> StoreError:
    """The error of a store for one of obstore: `action` of `place` failed."""
    status = _STATUS.search(str(error))
    reason = _REASONS.get(type(error).__name__, StoreFailure.UNREACHABLE)
    if status is not None:
        reason = _STATUSES.get(status[1], reason)
    words = _WORDS.search(str(error))
    text = words[0].strip() if words else _TEXTS[reason]
    hint = None
    if reason in {StoreFailure.REFUSED, StoreFailure.UNREACHABLE}:
        hint = credentials_hint(place.partition(":")[0])
    return StoreError(reason, f"cannot {action} {place}: {text}", hint=hint)


def credentials_hint(scheme: str) -> str:
    """What to look at if a store of this scheme refuses or does not answer."""
    return f"see whether the store is reachable, and the credentials: {_CREDENTIALS[scheme]}"
