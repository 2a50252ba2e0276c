# SPDX-License-Identifier: Apache-2.0
"""Reads git: the tags of a checkout whose version tool cannot be asked without a build."""

from pathlib import Path

from ci_doctor.environment.clone_history import with_clone_limits
from ci_doctor.environment.proof import checkout
from ci_doctor.environment.release_names import is_release
from ci_doctor.environment.tags import Described, exclusions


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
    described = Described(
        version=version,
        repository=checkout.root(project),
        tag=tag,
        distance=distance,
        node=f"g{head}" if head else None,
        shallow=checkout.is_shallow(project),
        unparsable=disturbing,
        breaks_on=nearest if nearest in disturbing else None,
    )
    return with_clone_limits(project, described)
