# SPDX-License-Identifier: Apache-2.0
"""Reads git: the tags of a checkout whose version tool cannot be asked without a build."""

import re
from pathlib import Path

from ci_doctor.environment.proof import checkout
from ci_doctor.environment.tags import Described, exclusions

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


def disturbing_tags(project: Path) -> tuple[str, ...]:
    """The tags reachable from HEAD that are no releases, newest first."""
    return tuple(tag for tag in checkout.tags_of(project) if not is_release(tag))


def describe(project: Path, version: str) -> Described:
    """The checkout of a project whose build computes `version` without the disturbing tags."""
    disturbing = disturbing_tags(project)
    good = [tag for tag in checkout.tags_of(project) if is_release(tag)]
    nearest = checkout.nearest_tag(project)
    tag, distance = checkout.described(project, exclusions(disturbing, good))
    head = checkout.head(project)
    return Described(
        version=version,
        repository=checkout.root(project),
        tag=tag,
        distance=distance,
        node=f"g{head}" if head else None,
        shallow=checkout.is_shallow(project),
        unparsable=disturbing,
        breaks_on=nearest if nearest in disturbing else None,
    )
