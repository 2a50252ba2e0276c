# SPDX-License-Identifier: Apache-2.0
"""Acts on files and processes: builds of one project's metadata, each in a fresh copy."""

from collections.abc import Collection, Mapping
from pathlib import Path

from ci_doctor.environment.proof.build_environment import (
    BuildEnvironment,
    BuildLimits,
    heavy_requirement,
)
from ci_doctor.environment.proof.checkout import copy_checkout
from ci_doctor.environment.proof.installed import InstalledPackages
from ci_doctor.environment.proof.metadata_build import build_metadata, build_system
from ci_doctor.environment.proof.metadata_result import BuiltMetadata


class Workbench:
    """One build environment for `project` under the empty directory `place`.

    `is_demanded`: a user asked for a proof. `is_needed`: nothing else tells the version, so that
    small requirements may be installed.
    """

    def __init__(
        self,
        project: Path,
        place: Path,
        installed: InstalledPackages,
        *,
        deadline: float,
        is_demanded: bool,
        is_needed: bool,
    ) -> None:
        self._project = project
        self._place = place
        self._builds = 0
        heavy = heavy_requirement(build_system(project).get("requires", []))
        limits = BuildLimits(
            may_install=is_demanded or (is_needed and heavy is None),
            may_build_wheels=is_demanded,
            deadline=deadline,
        )
        self._environment = BuildEnvironment(place / "environment", installed, limits)

    def build(
        self, environ: Mapping[str, str], without_tags: Collection[str] = ()
    ) -> BuiltMetadata:
        """Build the metadata with `environ`, all tags but `without_tags`.

        Raises Unbuildable.
        """
        self._builds += 1
        place = self._place / str(self._builds)
        place.mkdir()
        project = copy_checkout(self._project, place / "checkout", without_tags=without_tags)
        scratch = place / "metadata"
        scratch.mkdir()
        return build_metadata(project, scratch, self._environment, environ)
