# SPDX-License-Identifier: Apache-2.0
"""Pure. Which versions a specification means: PEP 440 specifiers, and globs such as `==0.1[89].*`."""

import fnmatch
import re
from collections.abc import Sequence
from typing import Final

from msgspec import Struct
from packaging.specifiers import InvalidSpecifier, SpecifierSet

from ci_doctor.compat.index.published import PublishedRelease
from ci_doctor.errors import UsageError

_SPEC: Final = re.compile(
    r"^\s*([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[[^]=<>]*\])?\s*((?:[=<>!~].*)?)$"
)


class VersionChoice(Struct, frozen=True, kw_only=True):
    """A package and the versions of it that are wanted. `globs`: each with whether it must match."""

    name: str
    specifiers: str
    globs: tuple[tuple[bool, str], ...]

    def chosen(self, published: Sequence[PublishedRelease]) -> list[PublishedRelease]:
        """The wanted versions, oldest first.

        Pre-releases and yanked ones are left out unless nothing else is wanted.
        """
        wanted = SpecifierSet(self.specifiers)
        matching = [
            each
            for each in published
            if wanted.contains(each.version, prereleases=True) and self._globbed(each)
        ]
        usual = [
            each for each in matching if not each.version.is_prerelease and not each.file.is_yanked
        ]
        return usual or matching

    def _globbed(self, each: PublishedRelease) -> bool:
        text = str(each.version)
        return all(_matches(text, pattern) is positive for positive, pattern in self.globs)


def version_choice(text: str) -> VersionChoice:
    """The choice that `name==1.[23].*,!=1.2.5` means. Raises UsageError if it is none."""
    match = _SPEC.match(text)
    if match is None:
        raise UsageError(
            f"{text} is no path and no specification", hint="write it like 'vllm>=0.18,<0.20'"
        )
    plain: list[str] = []
    globs: list[tuple[bool, str]] = []
    for part in match.group(2).split(","):
        clause = part.strip()
        operator, pattern = clause[:2], clause[2:].strip()
        if operator in {"==", "!="} and re.search(r"[\[?]|\*.", pattern):
            globs.append((operator == "==", pattern))
        elif clause:
            plain.append(clause)
    try:
        SpecifierSet(",".join(plain))
    except InvalidSpecifier as error:
        raise UsageError(f"{text}: {error}", hint="see PEP 440 for specifiers") from error
    return VersionChoice(name=match.group(1), specifiers=",".join(plain), globs=tuple(globs))


def _matches(version: str, pattern: str) -> bool:
    if fnmatch.fnmatchcase(version, pattern):
        return True
    # `0.18.*` means 0.18 too, as in PEP 440.
    return pattern.endswith(".*") and fnmatch.fnmatchcase(version, pattern[:-2])
