# SPDX-License-Identifier: Apache-2.0
"""Pure. Where ci-doctor can be had from: the only place to change once its home is settled."""

from typing import Final

from packaging.version import InvalidVersion, Version

from ci_doctor.model.distribution import DISTRIBUTION

# `.example` leads nowhere (RFC 2606), so nothing is loaded from a stranger meanwhile.
REPOSITORY: Final = "https://ci-doctor.example/ci-doctor.git"
PLUGIN: Final = f"{REPOSITORY}/buildkite_plugins/ci-doctor"


def release_of(version: str) -> str:
    """The release that a version belongs to: an index has `1.2.0`, and not `1.2.0.dev3+g1234567`."""
    try:
        return Version(version).base_version
    except InvalidVersion:
        return version


def is_release(version: str) -> bool:
    """Whether an index may have this very version."""
    return release_of(version) == version


def requirement(version: str, extra: str = "") -> str:
    """The distribution at the release of `version`, as pip and the plugin's `install` take it."""
    extras = f"[{extra}]" if extra else ""
    return f"{DISTRIBUTION}{extras}=={release_of(version)}"
