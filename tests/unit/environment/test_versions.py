# SPDX-License-Identifier: Apache-2.0
"""What becomes of projects that git is not asked about."""

import sys
from pathlib import Path

import pytest

from ci_doctor.environment.backends.pdm import PDM_BACKEND
from ci_doctor.environment.backends.setuptools_scm import SETUPTOOLS_SCM
from ci_doctor.environment.not_computable import BackendMissing
from ci_doctor.environment.project import Project
from ci_doctor.environment.versions import compute_version, describe_locally
from ci_doctor.errors import UsageError
from ci_doctor.model.finding import Severity


def test_a_fixed_version_needs_no_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    project = Project(directory=Path("/p"), name="x", tool="setup.cfg", version="1.2")
    computed = compute_version(project, allow_fallback=False)
    assert (computed.version, computed.findings, computed.offending) == ("1.2", (), ())


def test_another_backend_is_named_with_what_would_help() -> None:
    project = Project(
        directory=Path("/p"),
        name="x",
        tool="pbr",
        advice="export PBR_VERSION=VERSION",
    )
    (finding,) = compute_version(project, allow_fallback=False).findings
    assert (finding.rule, finding.severity) == ("version/unsupported-backend", Severity.WARNING)
    assert finding.remedy == "export PBR_VERSION=VERSION"


def test_options_that_only_setup_py_knows_are_said() -> None:
    project = Project(
        directory=Path("/p"),
        name="x",
        source=SETUPTOOLS_SCM,
        tool="setuptools-scm",
        unreadable=("version_scheme",),
    )
    computed = compute_version(project, allow_fallback=False)
    assert computed.version is None
    assert [(each.rule, each.severity) for each in computed.findings] == [
        ("version/setup-script", Severity.WARNING)
    ]


def test_a_backend_whose_extra_is_not_installed_is_an_error_of_usage(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A warning would let the job build with the version that its nightly tags give.
    monkeypatch.delitem(sys.modules, "ci_doctor.environment.backends.pdm_library", raising=False)
    monkeypatch.setitem(sys.modules, "pdm.backend.hooks.version", None)
    monkeypatch.delattr("ci_doctor.environment.backends.pdm_library", raising=False)
    project = Project(directory=Path("/p"), name="x", source=PDM_BACKEND, tool="pdm-backend")

    with pytest.raises(UsageError, match="is built by pdm-backend") as raised:
        compute_version(project, allow_fallback=False)

    assert raised.value.hint == "pip install 'ci-doctor-toolkit[pdm]'"
    with pytest.raises(BackendMissing) as local:
        describe_locally(project, PDM_BACKEND)
    assert local.value.finding.rule == "version/backend-missing"
