# SPDX-License-Identifier: Apache-2.0
"""What becomes of projects that git is not asked about."""

import tomllib
from pathlib import Path

import pytest
from msgspec.structs import replace

from ci_doctor.environment.pins import is_pep440, judge
from ci_doctor.environment.project import (
    HATCH_VCS,
    SETUPTOOLS_SCM,
    NotComputable,
    Project,
    VersionSource,
)
from ci_doctor.environment.tags import Described
from ci_doctor.environment.versions import compute_version, describe_locally
from ci_doctor.model.outcome import Severity

PROJECT = Project(
    directory=Path("/p"),
    name="x",
    source=SETUPTOOLS_SCM,
    tool="setuptools-scm",
    reads_pyproject=True,
)
CLEAN = Described(version="1.0", repository="/p", tag="v1.0", distance=0)


def test_a_fixed_version_needs_no_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    project = replace(PROJECT, source=None, tool="setup.cfg", version="1.2")
    computed = compute_version(project, allow_fallback=False)
    assert (computed.version, computed.findings) == ("1.2", ())


def test_another_backend_is_named_with_what_would_help() -> None:
    project = replace(PROJECT, source=None, tool="pbr", advice="export PBR_VERSION=VERSION")
    (finding,) = compute_version(project, allow_fallback=False).findings
    assert (finding.rule, finding.severity) == ("version/unsupported-backend", Severity.WARNING)
    assert finding.remedy == "export PBR_VERSION=VERSION"


def test_options_that_only_setup_py_knows_are_said() -> None:
    project = replace(PROJECT, unreadable=("version_scheme",))
    computed = compute_version(project, allow_fallback=False)
    assert computed.version is None
    assert [(each.rule, each.severity) for each in computed.findings] == [
        ("version/setup-script", Severity.WARNING)
    ]


def test_a_tool_that_only_a_build_can_ask_names_its_own_variable() -> None:
    source = VersionSource(name="pdm-backend", variable="PDM_BUILD_SCM_VERSION")
    advice = "export PDM_BUILD_SCM_VERSION=VERSION"
    project = replace(PROJECT, source=source, tool=source.name, advice=advice)

    computed = compute_version(project, allow_fallback=False)

    assert computed.version is None
    assert [(each.rule, each.remedy) for each in computed.findings] == [
        ("version/unsupported-backend", "export PDM_BUILD_SCM_VERSION=VERSION")
    ]
    with pytest.raises(NotComputable):
        describe_locally(project)


def test_a_clean_checkout_says_nothing() -> None:
    assert judge(PROJECT, CLEAN, allow_fallback=False) == ()


def test_many_tags_are_counted_and_all_of_them_are_evidence() -> None:
    names = tuple(f"nightly-cu{number}" for number in range(12))
    described = replace(CLEAN, unparsable=names, breaks_on=names[0])
    (finding,) = judge(PROJECT, described, allow_fallback=False)
    assert "'nightly-cu9' and 2 more" in finding.summary
    assert len(finding.evidence) == 12


def test_no_version_is_claimed_that_the_tool_itself_would_not_compute() -> None:
    described = replace(
        CLEAN, tag=None, version="0.1.dev1", unparsable=("nightly-cu13",), breaks_on="nightly-cu13"
    )

    tags, none = (each.summary for each in judge(PROJECT, described, allow_fallback=False))

    assert "setuptools-scm would pick 'nightly-cu13', and fail or be misled" in tags
    assert "without the tags that are no versions setuptools-scm computes 0.1.dev1" in none


@pytest.mark.parametrize(
    ("tag", "glob"),
    [
        ("v1.0", "v[0-9]*.*"),
        ("1.0", "[0-9]*.*"),
        ("pkg-a-1.0", "pkg-a-[0-9]*.*"),
        (None, "v[0-9]*.*"),
    ],
)
@pytest.mark.parametrize(
    ("source", "reads_pyproject", "place"),
    [
        (SETUPTOOLS_SCM, True, ("tool", "setuptools_scm", "git_describe_command")),
        (
            HATCH_VCS,
            False,
            ("tool", "hatch", "version", "raw-options", "git_describe_command"),
        ),
    ],
)
def test_the_remedy_is_toml_for_the_projects_own_tags(
    tag: str | None, glob: str, source: VersionSource, reads_pyproject: bool, place: tuple[str, ...]
) -> None:
    project = replace(PROJECT, source=source, reads_pyproject=reads_pyproject)
    described = replace(CLEAN, tag=tag, unparsable=("nightly-cu13",), breaks_on="nightly-cu13")
    finding = next(
        each
        for each in judge(project, described, allow_fallback=False)
        if each.rule == "version/unparsable-tag"
    )
    value: object = tomllib.loads(finding.remedy or "")
    for key in place:
        assert isinstance(value, dict)
        value = value[key]
    assert value == glob or (isinstance(value, list) and glob in value)


def test_the_remedy_of_a_setup_script_is_an_argument() -> None:
    project = replace(PROJECT, reads_pyproject=False)
    described = replace(CLEAN, unparsable=("v1.1-cu13",), breaks_on="v1.1-cu13")
    (finding,) = judge(project, described, allow_fallback=False)
    assert "get_version(git_describe_command=[" in (finding.remedy or "")
    assert "--exclude=v1.1-cu13" in (finding.remedy or "")


def test_a_version_that_no_build_accepts_is_an_error() -> None:
    (finding,) = judge(PROJECT, replace(CLEAN, version="1.0.post1.post5"), allow_fallback=False)
    assert (finding.rule, finding.severity) == ("version/invalid-pin", Severity.ERROR)


def test_what_is_pep_440() -> None:
    assert is_pep440("0.4.4.dev3+gbad0f9c07")
    assert not is_pep440("nightly-cu13")
    assert not is_pep440("")
