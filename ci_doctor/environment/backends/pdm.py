# SPDX-License-Identifier: Apache-2.0
"""Reads git through pdm-backend's own code, late: projects built by pdm-backend."""

from collections.abc import Mapping, Sequence
from typing import Final

from ci_doctor.environment.backends.unpinned import fixed, other_source
from ci_doctor.environment.not_computable import BackendMissing
from ci_doctor.environment.packaging_files import PackagingFiles, table
from ci_doctor.environment.project import Project
from ci_doctor.environment.tags import Described

_VARIABLE: Final = "PDM_BUILD_SCM_VERSION"


class PdmBackend:
    """pdm-backend with `source = "scm"`."""

    name = "pdm-backend"

    def describe(self, project: Project) -> Described:
        """What pdm-backend computes for the checkout; raises NotComputable."""
        try:
            from ci_doctor.environment.backends import pdm_library
        except ImportError as error:
            raise BackendMissing(project, "pdm") from error
        return pdm_library.describe(project)

    def read_names(self, project: Project, names: Sequence[str]) -> Sequence[str]:
        """Those that pdm-backend reads a version from; raises NotComputable."""
        from ci_doctor.environment.backends import pdm_library

        return pdm_library.read_names(project, names)

    def exported_variables(self, project: Project) -> tuple[str, ...]:  # noqa: ARG002 - one for all
        """The one variable, which has no distribution's name in it."""
        return (_VARIABLE,)

    def commit_variables(self, project: Project, described: Described) -> Mapping[str, str]:  # noqa: ARG002
        """None: pdm-backend writes the version alone."""
        return {}

    def shared_variables(self) -> tuple[str, ...]:
        """The one variable."""
        return (_VARIABLE,)

    def deciding_variable(self, project: Project, environ: Mapping[str, str]) -> str | None:  # noqa: ARG002
        """The one variable, if it is set and not empty."""
        return _VARIABLE if environ.get(_VARIABLE) else None

    def tag_setting(self, project: Project, glob: str, excluded: Sequence[str]) -> str:  # noqa: ARG002
        """`tag_filter`, which is one pattern and cannot exclude."""
        return f'[tool.pdm.version]\ntag_filter = "{glob}"'


PDM_BACKEND: Final = PdmBackend()


def detect(files: PackagingFiles) -> Project:
    """By the `source` of `[tool.pdm.version]`."""
    settings = dict(table(table(files.tools, "pdm"), "version"))
    source = settings.pop("source", "file")
    if source == "file":
        return fixed(files, PDM_BACKEND.name)
    if source != "scm":
        return other_source(files, f"pdm-backend source {source}")
    return Project(
        directory=files.directory,
        name=files.distribution_name,
        tool=PDM_BACKEND.name,
        source=PDM_BACKEND,
        options=settings,
    )
