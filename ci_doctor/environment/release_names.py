# SPDX-License-Identifier: Apache-2.0
"""Pure. Which names of tags are releases, if no tool can be asked."""

import re

# `v1.2`, `release-1.2`, `pkg/v1.2rc1`: a prefix of words, then a version by PEP 440.
_RELEASE = re.compile(r"^(?:[A-Za-z][\w.]*[-_/])*[vV]?(?P<version>\d.*)$")


def is_release(tag: str) -> bool:
    """Whether a tag's name is a version by PEP 440, with or without a prefix before it."""
    from packaging.version import InvalidVersion, Version

    match = _RELEASE.match(tag)
    if match is None:
        return False
    try:
        Version(match["version"])
    except InvalidVersion:
        return False
    return True
