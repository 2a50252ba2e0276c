# SPDX-License-Identifier: Apache-2.0
"""Reads git through setuptools-scm's library, late: projects built by hatchling with hatch-vcs."""

from typing import Final

from ci_doctor.environment.backends.setuptools_scm import GENERIC, SetuptoolsScm
from ci_doctor.environment.backends.unpinned import computed_by_code, fixed, other_source
from ci_doctor.environment.packaging_files import PackagingFiles, table
from ci_doctor.environment.project import Project
from ci_doctor.environment.requirement_bounds import is_forced_below

# These sources of hatchling take the version from a file or a variable.
_OWN_SOURCES = {"regex", "code", "env"}


class HatchVcs(SetuptoolsScm):
    """hatch-vcs: setuptools-scm's library, called with the options of hatch's own table."""

    name = "hatch-vcs"

    def exported_variables(self, project: Project) -> tuple[str, ...]:
        """Only the generic variable, unless `dist_name` is set: hatch-vcs passes no name on."""
        if project.reads_generic:
            return (GENERIC,)
        return super().exported_variables(project)

    def options_place(self, project: Project) -> str:  # noqa: ARG002 - the same for every project
        """The table that hatch-vcs passes on to the library."""
        return "[tool.hatch.version.raw-options]"


HATCH_VCS: Final = HatchVcs()


def detect(files: PackagingFiles) -> Project:
    """By `[tool.hatch.version]`, or `[version]` of hatch.toml, which wins.

    See https://hatch.pypa.io/latest/intro/#configuration.
    """
    settings = table(files.hatch, "version") or table(table(files.tools, "hatch"), "version")
    source = settings.get("source", "regex")
    if source in _OWN_SOURCES:
        computed = None if source == "regex" and settings else computed_by_code(files)
        return computed or fixed(files, "hatchling")
    if source != "vcs":
        return other_source(files, f"hatch source {source}")
    # As construct_setuptools_scm_config of hatch_vcs.version_source does.
    options = dict(table(settings, "raw-options"))
    if settings.get("tag-pattern"):
        options["tag_regex"] = settings["tag-pattern"]
    if settings.get("fallback-version"):
        options["fallback_version"] = settings["fallback-version"]
    dist_name = options.get("dist_name")
    return Project(
        directory=files.directory,
        name=dist_name if isinstance(dist_name, str) else files.distribution_name,
        tool=HATCH_VCS.name,
        source=HATCH_VCS,
        options=options,
        reads_generic=dist_name is None,
        abbreviates=is_forced_below(files.requires, "setuptools-scm", "9"),
    )
