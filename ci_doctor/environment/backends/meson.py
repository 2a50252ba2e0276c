# SPDX-License-Identifier: Apache-2.0
"""Reads packaging files: projects built by meson-python."""

from ci_doctor.environment.backends.setuptools_scm import with_setuptools_scm
from ci_doctor.environment.backends.unpinned import other
from ci_doctor.environment.packaging_files import PackagingFiles
from ci_doctor.environment.project import Project
from ci_doctor.environment.setup_script import ScmOptions
from ci_doctor.environment.version_code import version_code


def detect(files: PackagingFiles) -> Project:
    """By the `version` of `project()` in meson.build.

    `python -m setuptools_scm` there reads pyproject.toml, and the variables of that name.
    """
    code = version_code(files) if files.is_version_dynamic else None
    if code is not None and code.tool == "setuptools-scm":
        return with_setuptools_scm(files, ScmOptions(values={}), reads_pyproject=True)
    return other(files, "meson-python")
