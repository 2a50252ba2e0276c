# SPDX-License-Identifier: Apache-2.0
"""Pure. The `[cache]` section, and what one command is asked to do."""

from msgspec import Struct

from ci_doctor.caches.families import OwnFamily
from ci_doctor.store.trust import TrustPolicy

DEFAULT_BUDGET = "60s"


class CacheSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a person writes (docs/cache.md).

    store: a directory, or file://, s3://, gs://, az://. families: names, each with `=DIR` for a
    directory other than the library's own. own: a table for each family that the library does not
    know. trust: whose caches are restored; what is restored is executed. key: a private key; with one, what is saved is signed.
    allowed_signers: a file in the format of ssh-keygen(1). budget: the most that one command takes.
    strict: a problem with a cache decides the exit code. expires: how long what is saved may be
    restored. keep: of each family and identity, how many saved caches `gc` leaves.
    """

    store: str | None = None
    families: tuple[str, ...] = ()
    own: dict[str, OwnFamily] = {}
    trust: TrustPolicy = TrustPolicy.LOCAL
    key: str | None = None
    allowed_signers: str | None = None
    budget: str | float = DEFAULT_BUDGET
    strict: bool = False
    expires: str | float = "14d"
    keep: int = 3
