# SPDX-License-Identifier: Apache-2.0
"""Pure. What an audit met and did not follow."""

from ci_doctor.preload.audit.events import SourceSite  # noqa: TC001 - as everywhere here
from ci_doctor.preload.audit.library import Library


class Limits:
    """Counts and places of what source code alone does not tell.

    `unknown_starts`: calls of `.start()` on objects that are not known. `unknown_targets`: threads
    whose function is not known. `dynamic_imports`: of names that are computed. `unfollowed`:
    packages outside the audited code. `callbacks`: functions that somebody else calls.
    """

    def __init__(self) -> None:
        self.unknown_starts: dict[SourceSite, None] = {}
        self.unknown_targets: dict[SourceSite, None] = {}
        self.dynamic_imports: dict[SourceSite, None] = {}
        self.unfollowed: dict[str, None] = {}
        self.callbacks = 0
        self.is_cut = False

    def not_followed(self, library: Library, module: str) -> None:
        """Note a module whose code was not gone through."""
        if not library.follows(module) and module.partition(".")[0] not in library.stdlib:
            self.unfollowed[module.partition(".")[0]] = None
