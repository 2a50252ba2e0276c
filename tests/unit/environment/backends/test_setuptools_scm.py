# SPDX-License-Identifier: Apache-2.0
"""Which variable overrides setuptools-scm, compared with the library's own reader."""

from pathlib import Path

import pytest
from vcs_versioning import VcsEnvironment

from ci_doctor.environment.backends.setuptools_scm import GENERIC, SETUPTOOLS_SCM, suffix
from ci_doctor.environment.project import Project


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
