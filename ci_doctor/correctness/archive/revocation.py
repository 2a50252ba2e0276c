# SPDX-License-Identifier: Apache-2.0
"""Which commits and builds of an archive were revoked. Pure.

A revocation is a file `revoked-<key>.json` beside the identities. The key alone says what is
revoked: a commit, or the SHA-256 of a build's id. So a file with damaged content still revokes.
"""

import hashlib
from collections.abc import Mapping

from msgspec import Struct

from ci_doctor.correctness.archive.build_origin import BuildOrigin

FORMAT = "ci-doctor revocation, 1"


class Revocation(Struct, frozen=True, kw_only=True):
    """The content of a marker: `commit` or `build` (its id), who revoked it when, and why.

    `starts` are the files, relative to the archive, that it revoked at that time: eviction removes
    them first. Starts of the same commit that arrive later are revoked too.
    """

    format: str = FORMAT
    commit: str | None = None
    build: str | None = None
    reason: str | None = None
    revoked_at: str | None = None
    revoked_by: str | None = None
    starts: tuple[str, ...] = ()

    def explain(self) -> str:
        """`revoked on 2026-11-23: wrong kernels`."""
        words = "revoked"
        if self.revoked_at:
            words += f" on {self.revoked_at[:10]}"
        return f"{words}: {self.reason}" if self.reason else words


class Revocations(Struct, frozen=True, kw_only=True):
    """All revocations of an archive, by key."""

    by_key: Mapping[str, Revocation] = {}

    def of(self, origin: BuildOrigin | None) -> Revocation | None:
        """What revokes the starts of a build; None if nothing does.

        Nothing revokes a start of an unknown build: it must be removed as a file.
        """
        if origin is None:
            return None
        for key in (*origin.commits, build_key(origin.id)):
            revocation = self.by_key.get(key)
            if revocation is not None:
                return revocation
        return None

    @property
    def files(self) -> frozenset[str]:
        """The files of all revoked starts that were there at that time, relative to the archive."""
        names: set[str] = set()
        for revocation in self.by_key.values():
            names.update(revocation.starts)
        return frozenset(names)


def build_key(build: str) -> str:
    """The key of a build, by its id."""
    return hashlib.sha256(build.encode(errors="surrogateescape")).hexdigest()
