# SPDX-License-Identifier: Apache-2.0
"""Pure. Which lines of which files a change touches."""

from collections.abc import Mapping

from msgspec import Struct

from ci_doctor.lint.violation import Place

Lines = tuple[tuple[int, int], ...]  # first and last line, 1-based and inclusive


class ChangedLines(Struct, frozen=True, kw_only=True):
    """What has changed since `base`, a commit. `lines` maps each changed file to its ranges."""

    base: str
    lines: Mapping[str, Lines]

    def touches(self, place: Place) -> bool:
        """Whether a line of `place` has changed."""
        for first, last in self.lines.get(place.file, ()):
            if place.line <= last and first <= place.end_line:
                return True
        return False
