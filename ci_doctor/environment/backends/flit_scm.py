# SPDX-License-Identifier: Apache-2.0
"""Reads git through setuptools-scm's library, late: projects built by flit_scm."""

from typing import Final

from ci_doctor.environment.backends.setuptools_scm import SetuptoolsScm, with_setuptools_scm
from ci_doctor.environment.backends.unpinned import other
from ci_doctor.environment.packaging_files import PackagingFiles, table
from ci_doctor.environment.project import Project
from ci_doctor.environment.setup_script import ScmOptions


class FlitScm(SetuptoolsScm):
    """flit_scm: get_version() with the options of setuptools-scm's table."""

    name = "flit_scm"

    def options_place(self, project: Project) -> str:  # noqa: ARG002 - the same for every project
        """The table that flit_scm passes on."""
        return "[tool.setuptools_scm]"


FLIT_SCM: Final = FlitScm()


def detect(files: PackagingFiles) -> Project:
    """By `[tool.setuptools_scm]`, whose keys flit_scm passes to get_version() (flit_scm 1.7).

    Without the table it is flit_core alone, which reads the version from the module.
    """
    if "setuptools_scm" not in files.tools:
        return other(files, "flit_scm")
    options = ScmOptions(values=table(files.tools, "setuptools_scm"))
    return with_setuptools_scm(files, options, reads_pyproject=False, source=FLIT_SCM)
