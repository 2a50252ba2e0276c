# SPDX-License-Identifier: Apache-2.0
"""Reads values of packaging files: projects built by scikit-build-core."""

from ci_doctor.environment.backends.setuptools_scm import with_setuptools_scm
from ci_doctor.environment.backends.unpinned import other
from ci_doctor.environment.packaging_files import PackagingFiles, table
from ci_doctor.environment.project import Project
from ci_doctor.environment.setup_script import ScmOptions


def detect(files: PackagingFiles) -> Project:
    """Its setuptools_scm provider reads `[tool.setuptools_scm]` and the name."""
    metadata = table(table(files.tools, "scikit-build"), "metadata")
    provider = table(metadata, "version").get("provider")
    if provider == "scikit_build_core.metadata.setuptools_scm":
        return with_setuptools_scm(files, ScmOptions(values={}), reads_pyproject=True)
    return other(files, "scikit-build-core")
