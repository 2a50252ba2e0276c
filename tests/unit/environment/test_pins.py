# SPDX-License-Identifier: Apache-2.0
"""Which variables pin which versions, and whose value wins."""

from pathlib import Path

import pytest

from ci_doctor.environment.pins import ComputedVersion, Pins, decide_pins
from ci_doctor.environment.project import HATCH_VCS, SETUPTOOLS_SCM, Project, VersionSource
from ci_doctor.environment.tags import Described
from ci_doctor.model.finding import Finding, Severity

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


def test_a_project_with_a_name_gets_its_own_variable() -> None:
    pins = decide_pins([computed()], {}, {})
    assert exported(pins) == {SCOPED: "1.0"}
    assert pins.findings == ()
    assert pins.lines == ("lmcache 1.0 (setuptools-scm, from tag v1)",)


def test_get_version_without_a_name_gets_both_and_a_note() -> None:
    pins = decide_pins([computed(of=project("vllm", generic=True))], {}, {})
    assert exported(pins) == {GENERIC: "1.0", f"{GENERIC}_FOR_VLLM": "1.0"}
    assert rules(pins) == ["version/unscoped"]


def test_hatch_vcs_gets_only_the_generic_one() -> None:
    assert exported(decide_pins([computed(of=project("h", HATCH_VCS, generic=True))], {}, {})) == {
        GENERIC: "1.0"
    }


def test_pdm_backend_gets_its_own() -> None:
    assert exported(
        decide_pins([computed(of=project("h", PDM_BACKEND, generic=True))], {}, {})
    ) == {PDM: "1.0"}


def test_two_projects_that_need_one_variable_differently_pin_nothing() -> None:
    one, two = project("vllm", generic=True), project("other", HATCH_VCS, generic=True)
    pins = decide_pins([computed("1.0", one), computed("2.0", two), computed("3.0")], {}, {})
    assert pins.variables == ()
    finding = pins.findings[-1]
    assert (finding.rule, finding.severity) == ("version/conflicting-pins", Severity.ERROR)
    assert "other, vllm" in finding.summary


def test_two_projects_that_agree_share_one_variable() -> None:
    pins = decide_pins(
        [computed("1.0", project(name, PDM_BACKEND, generic=True)) for name in ("a", "b")], {}, {}
    )
    assert exported(pins) == {PDM: "1.0"}


def test_a_generic_pin_may_not_reach_a_project_that_cannot_be_pinned() -> None:
    pins = decide_pins([computed("1.0", project("vllm", generic=True)), computed(None)], {}, {})
    assert pins.variables == ()
    assert rules(pins) == ["version/conflicting-pins"]


def test_a_generic_pin_leaves_scoped_projects_their_own() -> None:
    pins = decide_pins([computed("1.0", project("vllm", generic=True)), computed("2.0")], {}, {})
    assert exported(pins) == {GENERIC: "1.0", f"{GENERIC}_FOR_VLLM": "1.0", SCOPED: "2.0"}


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


def test_an_empty_scoped_value_hides_the_generic_one_and_is_filled() -> None:
    assert exported(decide_pins([computed()], {SCOPED: "", GENERIC: "9.9"}, {})) == {SCOPED: "1.0"}


def test_a_scoped_value_does_not_decide_where_only_the_generic_one_is_read() -> None:
    pins = decide_pins(
        [computed("1.0", project("vllm", generic=True))], {f"{GENERIC}_FOR_VLLM": "9.9"}, {}
    )
    assert exported(pins) == {GENERIC: "1.0"}


def test_our_own_value_of_an_earlier_run_is_recomputed() -> None:
    assert exported(decide_pins([computed("1.1")], {SCOPED: "1.0"}, {SCOPED: "1.0"})) == {
        SCOPED: "1.1"
    }


def test_our_own_value_that_a_person_changed_is_theirs() -> None:
    pins = decide_pins([computed("1.1")], {SCOPED: "9.9"}, {SCOPED: "1.0"})
    assert (exported(pins), rules(pins)) == ({}, ["version/already-set"])


def test_our_earlier_value_follows_one_that_was_set_since() -> None:
    pins = decide_pins([computed("1.1")], {SCOPED: "1.0", GENERIC: "9.9"}, {SCOPED: "1.0"})
    assert (exported(pins), rules(pins)) == ({SCOPED: "9.9"}, ["version/already-set"])


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
