# SPDX-License-Identifier: Apache-2.0
"""Which variable overrides setuptools-scm, compared with the library's own reader."""

from pathlib import Path

import pytest
from vcs_versioning import VcsEnvironment

from ci_doctor.environment.backends.setuptools_scm import GENERIC, SETUPTOOLS_SCM, suffix
from ci_doctor.environment.detection import read_project
from ci_doctor.environment.project import Project
from ci_doctor.environment.tags import Described


def project(name: str) -> Project:
    return Project(
        directory=Path(f"/p/{name}"), name=name, tool="setuptools-scm", source=SETUPTOOLS_SCM
    )


@pytest.mark.parametrize("name", ["lmcache", "My--Pkg..x", "a_b", "A.B-C"])
@pytest.mark.parametrize(
    "environ",
    [
        {},
        {GENERIC: "1"},
        {GENERIC: ""},
        {"VCS_VERSIONING_PRETEND_VERSION": "2", GENERIC: "1"},
        {"VCS_VERSIONING_PRETEND_VERSION_FOR_{}": "3", GENERIC: "1"},
        {GENERIC + "_FOR_{}": "", GENERIC: "1"},
        {GENERIC + "_FOR_{}": "4", "VCS_VERSIONING_PRETEND_VERSION_FOR_{}": "3"},
    ],
)
def test_the_deciding_variable_is_the_librarys(name: str, environ: dict[str, str]) -> None:
    environ = {key.format(suffix(name)): value for key, value in environ.items()}
    read = (
        VcsEnvironment.from_env("SETUPTOOLS_SCM", env=environ)
        .make_reader(name)
        .read("PRETEND_VERSION")
    )
    deciding = SETUPTOOLS_SCM.deciding_variable(project(name), environ)
    assert (environ[deciding] if deciding else None) == (read or None)


@pytest.mark.parametrize("spelling", ["My__Pkg.x", "my-pkg-x", "MY_PKG_X"])
def test_misspelt_suffixes_count_as_the_library_counts_them(spelling: str) -> None:
    environ = {f"{GENERIC}_FOR_{spelling}": "5"}
    read = (
        VcsEnvironment.from_env("SETUPTOOLS_SCM", env=environ)
        .make_reader("My--Pkg..x")
        .read("PRETEND_VERSION")
    )
    assert read == "5"
    assert (
        SETUPTOOLS_SCM.deciding_variable(project("My--Pkg..x"), environ)
        == f"{GENERIC}_FOR_{spelling}"
    )


def test_a_suffix_of_another_name_does_not_count() -> None:
    assert (
        SETUPTOOLS_SCM.deciding_variable(project("lmcache"), {f"{GENERIC}_FOR_LM_CACHE": "5"})
        is None
    )


@pytest.mark.parametrize(
    ("name", "requirement", "generic"),
    [
        ("my-pkg", "setuptools-scm<8", True),
        ("my.pkg", "setuptools_scm==7.1.0", True),
        ("my_pkg", "setuptools-scm<8", False),
        ("pkg", "setuptools-scm<8", False),
        ("my-pkg", "setuptools-scm>=7", False),
        ("my-pkg", "setuptools-scm==8.2.0", False),
    ],
)
def test_an_old_setuptools_scm_reads_no_variable_for_a_name_with_a_hyphen(
    tmp_path: Path, name: str, requirement: str, generic: bool
) -> None:
    (tmp_path / "pyproject.toml").write_text(
        f'[build-system]\nrequires = ["setuptools", "{requirement}"]\n'
        f'[project]\nname = "{name}"\ndynamic = ["version"]\n[tool.setuptools_scm]\n'
    )
    names = SETUPTOOLS_SCM.exported_variables(read_project(tmp_path))
    assert (GENERIC in names) is generic


def test_the_commit_is_kept_beside_each_pinned_variable() -> None:
    unscoped = Project(directory=Path(), name="my-pkg", tool="x", reads_generic=True)
    described = Described(version="1.0", node="gabc", distance=3, dirty=True)
    value = '{node = "gabc", distance = 3, dirty = true}'
    assert SETUPTOOLS_SCM.commit_variables(unscoped, described) == {
        "SETUPTOOLS_SCM_PRETEND_METADATA": value,
        "SETUPTOOLS_SCM_PRETEND_METADATA_FOR_MY_PKG": value,
    }
    assert SETUPTOOLS_SCM.commit_variables(unscoped, Described(version="1.0")) == {}
