# SPDX-License-Identifier: Apache-2.0
"""Build requirements that allow old versions only."""

import pytest

from ci_doctor.environment.requirement_bounds import is_forced_below


@pytest.mark.parametrize(
    "requirement",
    [
        "setuptools_scm<8",
        "setuptools-scm>=6.2,<8",
        "setuptools-scm==7.1.0",
        "setuptools_scm[toml]~=7.0",
        "Setuptools.SCM==7.*",
        "setuptools-scm<=7.99",
    ],
)
def test_old_versions_only(requirement: str) -> None:
    assert is_forced_below(["wheel", requirement], "setuptools-scm", "8")


@pytest.mark.parametrize(
    "requirement",
    [
        "setuptools-scm",
        "setuptools-scm>=7",
        "setuptools-scm<9",
        "setuptools-scm==8.2.0",
        "setuptools-scm<=8",
        "setuptools-scm!=7.0",
        "setuptools-scm<8; python_version < '3.0'",
        "hatch-vcs<8",
        "setuptools-scm @ https://example.org/x.tar.gz",
        "setuptools-scm <!> 8",
    ],
)
def test_newer_ones_too(requirement: str) -> None:
    assert not is_forced_below([requirement], "setuptools-scm", "8")
