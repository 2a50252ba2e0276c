# SPDX-License-Identifier: Apache-2.0
"""Reads a project's files: build backends and their `detect` functions."""

from collections.abc import Callable, Mapping
from typing import Final

from ci_doctor.environment.backends import flit_scm, hatchling, meson, pdm, scikit_build, setuptools
from ci_doctor.environment.packaging_files import PackagingFiles
from ci_doctor.environment.project import Project

# By the package of the build backend (PEP 517), in the order in which they are tried. A function
# takes a project's files and returns the project with its version source.
BUILD_BACKENDS: Final[Mapping[str, Callable[[PackagingFiles], Project]]] = {
    "setuptools": setuptools.detect,
    "hatchling": hatchling.detect,
    "pdm-backend": pdm.detect,
    "scikit-build-core": scikit_build.detect,
    "flit-scm": flit_scm.detect,
    "mesonpy": meson.detect,
}
