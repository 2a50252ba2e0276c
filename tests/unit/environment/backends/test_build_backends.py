# SPDX-License-Identifier: Apache-2.0
"""What every build backend must be able to do, whichever rows the table has."""

from pathlib import Path

import pytest

from ci_doctor.environment.backends.build_backends import BUILD_BACKENDS
from ci_doctor.environment.backends.hatchling import HATCH_VCS
from ci_doctor.environment.backends.pdm import PDM_BACKEND
from ci_doctor.environment.backends.setuptools_scm import SETUPTOOLS_SCM
from ci_doctor.environment.detection import read_project
from ci_doctor.environment.packaging_files import packages
from ci_doctor.environment.project import Project, VersionSource

SOURCES: tuple[VersionSource, ...] = (SETUPTOOLS_SCM, HATCH_VCS, PDM_BACKEND)


@pytest.mark.parametrize("package", BUILD_BACKENDS)
def test_a_row_is_named_by_its_canonical_package(package: str) -> None:
    assert packages([package]) == {package}


@pytest.mark.parametrize("package", BUILD_BACKENDS)
def test_a_project_without_a_version_source_is_fixed(package: str, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        f'[build-system]\nbuild-backend = "{package}"\n[project]\nname = "x"\ndynamic = ["version"]\n'
    )
    assert read_project(tmp_path).is_fixed


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name)
@pytest.mark.parametrize("generic", [True, False])
def test_what_is_exported_decides(source: VersionSource, generic: bool) -> None:
    project = Project(
        directory=Path("/p"), name="x", tool="t", source=source, reads_generic=generic
    )
    environ = dict.fromkeys(source.exported_variables(project), "1.0")
    assert source.deciding_variable(project, {}) is None
    assert source.deciding_variable(project, environ) in environ


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name)
def test_a_shared_variable_decides_for_every_project(source: VersionSource) -> None:
    project = Project(directory=Path("/p"), name="x", tool="t", source=source)
    for name in source.shared_variables():
        assert source.deciding_variable(project, {name: "1.0"}) == name
