# SPDX-License-Identifier: Apache-2.0
"""Pure. Whether build requirements force an old version of a package."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ci_doctor.environment.packaging_files import packages

if TYPE_CHECKING:
    from packaging.specifiers import Specifier


def is_forced_below(requires: Iterable[str], package: str, version: str) -> bool:
    """Whether `requires` allow only versions of `package` (its canonical name) below `version`.

    A requirement whose marker does not hold here, or that cannot be parsed, does not count.
    """
    named = [text for text in requires if package in packages([text])]
    if not named:
        return False
    # Late: most projects name no such requirement, and packaging takes a while to import.
    from packaging.requirements import InvalidRequirement, Requirement

    for text in named:
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            continue
        if requirement.marker is not None and not requirement.marker.evaluate():
            continue
        if any(_is_below(each, version) for each in requirement.specifier):
            return True
    return False


def _is_below(specifier: "Specifier", version: str) -> bool:
    """Whether every version that `specifier` allows is below `version` (PEP 440)."""
    from packaging.version import InvalidVersion, Version

    limit = Version(version)
    try:
        named = Version(specifier.version.removesuffix(".*"))
    except InvalidVersion:  # `===` takes any text
        return False
    match specifier.operator:
        case "<":
            return named <= limit
        case "<=" | "==" | "===":
            return named < limit
        case "~=":
            # `~= 7.1` is `>= 7.1, == 7.*`.
            return named.release[: max(len(named.release) - 1, 1)] < limit.release
        case _:
            return False
