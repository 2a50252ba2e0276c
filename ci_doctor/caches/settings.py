# SPDX-License-Identifier: Apache-2.0
"""Pure. The `[cache]` section, and what one command is asked to do."""

from enum import StrEnum

from msgspec import Struct

from ci_doctor.caches.families.own import OwnFamily

DEFAULT_BUDGET = "60s"


class Trust(StrEnum):
    """Whose caches may be restored: what is restored is executed.

    signed: those that an allowed signer has signed. local: unsigned ones, too, from a directory that
    only this user can write. any: all of them.
    """

    SIGNED = "signed"
    LOCAL = "local"
    ANY = "any"


class CacheSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a person writes (docs/cache.md).

    store: a directory, or file://, s3://, gs://, az://. families: names, each with `=DIR` for a
    directory other than the library's own. own: a table for each family that the library does not
    know. key: a private key; with one, what is saved is signed.
    allowed_signers: a file in the format of ssh-keygen(1). budget: the most that one command takes.
    strict: a problem with a cache decides the exit code. expires: how long what is saved may be
    restored. keep: of each family and identity, how many saved caches `gc` leaves.
    """

    store: str | None = None
    families: tuple[str, ...] = ()
    own: dict[str, OwnFamily] = {}
    trust: Trust = Trust.SIGNED
    key: str | None = None
    allowed_signers: str | None = None
    budget: str | float = DEFAULT_BUDGET
    strict: bool = False
    expires: str | float = "14d"
    keep: int = 3
