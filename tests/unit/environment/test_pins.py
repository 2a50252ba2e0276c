# SPDX-License-Identifier: Apache-2.0
"""Which variables pin which versions, and whose value wins."""

from pathlib import Path

import pytest

from ci_doctor.environment.pins import ComputedVersion, Pins, decide_pins
from ci_doctor.environment.project import HATCH_VCS, SETUPTOOLS_SCM, Project, VersionSource
from ci_doctor.environment.tags import Described
from ci_doctor.model.outcome import Finding, Severity

GENERIC = "SETUPTOOLS_SCM_PRETEND_VERSION"
SCOPED = f"{GENERIC}_FOR_LMCACHE"
PDM = "PDM_BUILD_SCM_VERSION"
PDM_BACKEND = VersionSource(name="pdm-backend", variable=PDM)


def project(
    name: str | None = "lmcache",
    source: VersionSource | None = SETUPTOOLS_SCM,
    *,
    generic: bool = False,
) -> Project:
    return Project(
        directory=Path(f"/p/{name}"),
        name=name,
        source=source,
        tool=source.name if source else "fixed",
        reads_generic=generic,
    )


def computed(
    version: str | None = "1.0", of: Project | None = None, *findings: Finding
) -> ComputedVersion:
    described = Described(version=version or "0", repository="/p", tag="v1", distance=0)
    return ComputedVersion(
        project=of or project(), version=version, findings=findings, described=described
    )


def exported(pins: Pins) -> dict[str, str]:
    return {variable.name: variable.value for variable in pins.variables}


def rules(pins: Pins) -> list[str]:
    return [finding.rule for finding in pins.findings]


def of(
    name: str, source: VersionSource = SETUPTOOLS_SCM, version: str | None = "1.0"
) -> ComputedVersion:
    """Of a project that reads the generic variable."""
    return computed(version, project(name, source, generic=True))


VLLM = f"{GENERIC}_FOR_VLLM"


@pytest.mark.parametrize(
    ("projects", "environ", "earlier", "expected", "found"),
    [
        ([computed()], {}, {}, {SCOPED: "1.0"}, []),
        # Without a name, both, and a note; hatch-vcs has the generic one alone, pdm-backend its own.
        ([of("vllm")], {}, {}, {GENERIC: "1.0", VLLM: "1.0"}, ["version/unscoped"]),
        ([of("h", HATCH_VCS)], {}, {}, {GENERIC: "1.0"}, None),
        ([of("h", PDM_BACKEND)], {}, {}, {PDM: "1.0"}, None),
        # Two that agree share one variable; a generic pin may not reach one that cannot be pinned.
        ([of("a", PDM_BACKEND), of("b", PDM_BACKEND)], {}, {}, {PDM: "1.0"}, None),
        ([of("vllm"), computed(None)], {}, {}, {}, ["version/conflicting-pins"]),
        ([of("vllm"), computed("2.0")], {}, {}, {GENERIC: "1.0", VLLM: "1.0", SCOPED: "2.0"}, None),
        # An empty scoped value hides the generic one, and is filled.
        ([computed()], {SCOPED: "", GENERIC: "9.9"}, {}, {SCOPED: "1.0"}, None),
        # A scoped value does not decide where only the generic one is read.
        ([of("vllm")], {VLLM: "9.9"}, {}, {GENERIC: "1.0"}, None),
        # Of an earlier run: recomputed; a person's since; it follows one that was set since.
        ([computed("1.1")], {SCOPED: "1.0"}, {SCOPED: "1.0"}, {SCOPED: "1.1"}, None),
        ([computed("1.1")], {SCOPED: "9.9"}, {SCOPED: "1.0"}, {}, ["version/already-set"]),
        ([computed("1.1")], {SCOPED: "1.0", GENERIC: "9.9"}, {SCOPED: "1.0"}, {SCOPED: "9.9"}, ["version/already-set"]),
    ],
)  # fmt: skip
def test_which_variables_are_set(
    projects: list[ComputedVersion],
    environ: dict[str, str],
    earlier: dict[str, str],
    expected: dict[str, str],
    found: list[str] | None,
) -> None:
    pins = decide_pins(projects, environ, earlier)
    assert exported(pins) == expected
    if found is not None:
        assert rules(pins) == found


def test_two_projects_that_need_one_variable_differently_pin_nothing() -> None:
    one, two = project("vllm", generic=True), project("other", HATCH_VCS, generic=True)
    pins = decide_pins([computed("1.0", one), computed("2.0", two), computed("3.0")], {}, {})
    assert pins.variables == ()
    finding = pins.findings[-1]
    assert (finding.rule, finding.severity) == ("version/conflicting-pins", Severity.ERROR)
    assert "other, vllm" in finding.summary


@pytest.mark.parametrize(
    "name",
    [
        SCOPED,
        "VCS_VERSIONING_PRETEND_VERSION_FOR_LMCACHE",
        GENERIC,
        "VCS_VERSIONING_PRETEND_VERSION",
        f"{GENERIC}_FOR_lmcache",
    ],
)
def test_a_value_of_a_person_is_never_overridden(name: str) -> None:
    refused = Finding(rule="version/shallow-clone", severity=Severity.ERROR, summary="x")
    pins = decide_pins([computed("1.0", None, refused)], {name: "9.9"}, {})
    assert pins.variables == ()
    assert rules(pins) == ["version/already-set"]
    assert "without it: 1.0" in pins.findings[0].summary


def test_an_invalid_value_of_a_person_is_an_error() -> None:
    pins = decide_pins([computed()], {SCOPED: "nightly-cu13"}, {})
    assert [(each.rule, each.severity) for each in pins.findings] == [
        ("version/invalid-pretend", Severity.ERROR)
    ]
    assert pins.variables == ()


def test_a_version_from_files_is_pinned_alike() -> None:
    files = ComputedVersion(project=project(), version="5.6", described=Described(version="5.6"))
    pins = decide_pins([files], {}, {})
    assert exported(pins) == {SCOPED: "5.6"}
    assert pins.lines == ("lmcache 5.6 (setuptools-scm, from the project's files)",)


def test_what_needs_no_pin_and_what_has_none() -> None:
    fixed = ComputedVersion(project=project("f", None), version="3.0")
    pins = decide_pins([fixed, computed(None)], {}, {})
    assert pins.variables == ()
    assert pins.lines == ("f 3.0 (fixed; nothing to pin)", "lmcache not pinned (setuptools-scm)")
    assert decide_pins([computed()], {}, {}).lines == ("lmcache 1.0 (setuptools-scm, from tag v1)",)
